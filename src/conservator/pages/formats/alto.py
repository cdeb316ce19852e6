"""ALTO, the XML format of the Library of Congress: a word is a ``String``, the space after it an ``SP``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from conservator.pages.formats.markup_file import MarkupFile, WordEdit, WordLocation
from conservator.pages.formats.numbers import read_confidence, write_coordinate
from conservator.pages.markup import Markup
from conservator.pages.markup.edits import Edits, escape, new_element
from conservator.pages.markup.elements import Element
from conservator.pages.model import Box, Glyph, Line, Page, TextAlternative, Word, WordChange
from conservator.pages.transcript import Transcript

ORIGINAL = "original"  # PURPOSE of the ALTERNATIVE with the text before a change
BOX_ATTRIBUTES = ("HPOS", "VPOS", "WIDTH", "HEIGHT")
TESSERACT_PERCENT = re.compile(r"0\.(\d{1,2}|100)")  # Tesseract writes 9 % as "0.9", and 100 % as "0.100"
HYPHENS = "-\u00ad\u00ac\u2010\u2e17="  # characters at the end of the first part of a hyphenated word
MAX_CC_RATING = 9  # rating: CC of the least confident character; 0 is the most confident [definition]


@dataclass
class AltoFile(MarkupFile):
    """An ALTO file. A word that is split becomes two ``String`` elements with an ``SP`` between them.

    Attributes:
        is_tesseract: whether the file names Tesseract.
    """

    is_tesseract: bool = False
    not_copied = ("CC", "SUBS_TYPE", "SUBS_CONTENT")

    def set_properties(self, edits: Edits, edit: WordEdit) -> None:
        """Set the box attributes and the WC of a String."""
        for name, value in _format_properties(edit).items():
            edits.set_attribute(edit.element, name, value)

    def set_text(self, edits: Edits, edit: WordEdit) -> None:
        """Set the CONTENT of a String."""
        edits.set_attribute(edit.element, "CONTENT", self._content(edits, edit))

    def record_original(self, edits: Edits, element: Element, old_text: str) -> None:
        """Add the original text as an ALTERNATIVE after the other alternatives."""
        alternatives = element.elements("ALTERNATIVE")
        if not any(alternative.attributes.get("PURPOSE") == ORIGINAL for alternative in alternatives):
            original = new_element(self.markup.source, element, "ALTERNATIVE", {"PURPOSE": ORIGINAL}, escape(old_text))
            ends = [child.stop for child in element.elements() if child.name in ("Shape", "ALTERNATIVE")]
            edits.insert(element, max(ends, default=element.content_start), original)

    def new_word(self, edits: Edits, edit: WordEdit) -> bytes:
        """Return an SP and a String."""
        element, source = edit.element, self.markup.source
        attributes = self.copied_attributes(element) | {"CONTENT": self._content(edits, edit)}
        space = {}
        if edit.previous_box is not None and edit.box is not None:
            width = max(0.0, edit.box.left - edit.previous_box.right)
            values = {"HPOS": edit.previous_box.right, "VPOS": edit.previous_box.top, "WIDTH": width}
            space = {name: write_coordinate(value) for name, value in values.items()}
        word = new_element(source, element, "String", attributes | _format_properties(edit), edit.glyphs)
        return new_element(source, element, "SP", space) + word

    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Delete a String and the SP elements before it."""
        parent = location.element.parent
        assert parent is not None
        siblings = parent.elements()
        index = siblings.index(location.element)
        while index > 0 and siblings[index - 1].name == "SP" and siblings[index - 1].start > first.element.start:
            edits.delete(siblings[index - 1])
            index -= 1
        edits.delete(location.element)

    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a glyph."""
        return glyph.attributes.get("CONTENT", "")

    def update_copies(self, edits: Edits, words: Sequence[Word], changes: Sequence[WordChange]) -> None:
        """Update SUBS_CONTENT, the complete word, in both parts of a changed hyphenated word.

        It is updated if it was the concatenation of both parts. If a part was joined with other words or split, both
        parts lose SUBS_TYPE and SUBS_CONTENT.
        """
        change_of_word = {index: change for change in changes for index in range(change.start, change.stop)}
        first_parts = sorted({first for index in change_of_word for first in (index - 1, index)})
        for first in first_parts:
            pair = (first, first + 1)
            if first < 0 or first + 1 >= len(words) or tuple(map(self._subs_type, pair)) != ("HypPart1", "HypPart2"):
                continue
            new_texts = [_new_text(words[index], index, change_of_word.get(index)) for index in pair]
            old_whole = _join_parts(words[first].text, words[first + 1].text)
            for index in pair:
                change, element = change_of_word.get(index), self.locations[index].element
                if None in new_texts:
                    if change is None or change.start == index:  # the elements of the other words are deleted
                        edits.remove_attribute(element, "SUBS_TYPE")
                        edits.remove_attribute(element, "SUBS_CONTENT")
                elif words[index].whole == old_whole:
                    edits.set_attribute(element, "SUBS_CONTENT", _join_parts(str(new_texts[0]), str(new_texts[1])))

    def _subs_type(self, index: int) -> str | None:
        """Return which part of a hyphenated word a word is."""
        return self.locations[index].element.attributes.get("SUBS_TYPE")

    def _content(self, edits: Edits, edit: WordEdit) -> str:
        """Return the CONTENT of a word: the last word ends before the hyphen that has its own element.

        The element is deleted if the text does not end with one hyphen.
        """
        element = edit.location.hyphen
        if element is None or not edit.is_last:
            return edit.text
        hyphen = element.attributes.get("CONTENT", "").strip()
        rest = edit.text.removesuffix(hyphen)
        if rest in ("", edit.text) or rest.endswith(hyphen):  # with the element, the file would have a different text
            edits.delete(element)
            return edit.text
        return rest


def read_alto(data: bytes, markup: Markup) -> Transcript:
    """Read ALTO; lines are in the order of the file."""
    root = markup.root
    elements = list(root.walk())
    metadata = {
        element.name: element.text().strip()
        for element in reversed(elements)
        if element.name in ("MeasurementUnit", "fileName")
    }
    engines = [" ".join(element.text().split()) for element in elements if element.name == "softwareName"]
    file = AltoFile(markup, is_tesseract=any("tesseract" in engine.lower() for engine in engines))
    lines_of_page: dict[Element, list[Element]] = {element: [] for element in elements if element.name == "Page"}
    for element in elements:
        if element.name == "TextLine":
            page = next((ancestor for ancestor in element.ancestors() if ancestor.name == "Page"), root)
            lines_of_page.setdefault(page, []).append(element)
    pages = []
    for page, line_elements in lines_of_page.items():
        lines: list[Line] = []
        blocks: dict[Element | None, int] = {}
        for line in line_elements:
            words = _read_words(file, line)
            if words:
                block = blocks.setdefault(line.parent, len(blocks))
                lines.append(Line(tuple(words), _read_box(file, line), block))
        pages.append(Page(tuple(lines), file.read_page_box(page, "WIDTH", "HEIGHT"), metadata.get("fileName") or None))
    unit = metadata.get("MeasurementUnit") or "pixel"
    return Transcript("ALTO", next(iter(engines), None), unit, tuple(pages), data, file)


def _read_words(file: AltoFile, line: Element) -> list[Word]:
    """Read the words of a line, and append their locations."""
    words: list[Word] = []
    children = [child for child in line.elements() if child.name in ("String", "HYP")]
    for element, following in zip(children, [*children[1:], line], strict=True):
        content = " ".join(element.attributes.get("CONTENT", "").split())
        if element.name == "HYP" or not content:
            continue
        hyphen = following.attributes.get("CONTENT", "").strip() if following.name == "HYP" else ""
        hyphen = "" if content.endswith(hyphen) else hyphen
        words.append(_read_word(file, element, content, hyphen))
        file.locations.append(WordLocation(element, hyphen=following if hyphen else None))
    return words


def _read_word(file: AltoFile, element: Element, content: str, hyphen: str) -> Word:
    """Read a word; ``hyphen`` is the text of the hyphen element after it."""
    originals = (
        " ".join(alternative.text().split())
        for alternative in element.elements("ALTERNATIVE")
        if alternative.attributes.get("PURPOSE") == ORIGINAL
    )
    attributes = element.attributes
    is_hyphenated = attributes.get("SUBS_TYPE") in ("HypPart1", "HypPart2")
    glyphs = _read_glyphs(file, element, content)
    return Word(
        content + hyphen,
        _read_word_confidence(file, attributes.get("WC")),
        _read_box(file, element),
        (*glyphs, Glyph(hyphen)) if glyphs and hyphen else glyphs,
        attributes.get("SUBS_CONTENT") if is_hyphenated else None,
        next(originals, None),
    )


def _read_glyphs(file: AltoFile, element: Element, content: str) -> tuple[Glyph, ...]:
    """Read the characters of a word: Glyph elements with their variants, or the ratings in CC (0 best, 9 worst)."""
    glyphs = tuple(
        Glyph(
            glyph.attributes.get("CONTENT", ""),
            read_confidence(glyph.attributes.get("GC")),
            _read_box(file, glyph),
            tuple(
                TextAlternative(variant.attributes.get("CONTENT", ""), read_confidence(variant.attributes.get("VC")))
                for variant in glyph.elements("Variant")
            ),
        )
        for glyph in element.elements("Glyph")
    )
    ratings = "".join(element.attributes.get("CC", "").split())
    if not glyphs and len(ratings) == len(content) and ratings.isascii() and ratings.isdigit():
        return tuple(
            Glyph(character, 1 - int(rating) / MAX_CC_RATING)
            for character, rating in zip(content, ratings, strict=True)
        )
    return glyphs


def _read_word_confidence(file: AltoFile, value: str | None) -> float | None:
    """Read a WC. Tesseract writes "0." and then an integer percentage without leading zeros."""
    if file.is_tesseract and value is not None and TESSERACT_PERCENT.fullmatch(value):
        return int(value[2:]) / 100
    return read_confidence(value)


def _read_box(file: AltoFile, element: Element) -> Box | None:
    """Return the box of an element; None if a box attribute is missing."""
    numbers = file.coordinates(element, [element.attributes.get(name) for name in BOX_ATTRIBUTES])
    if len(numbers) < len(BOX_ATTRIBUTES):
        return None
    left, top, width, height = numbers
    return Box(left, top, left + width, top + height)


def _format_properties(edit: WordEdit) -> dict[str, str]:
    """Return the attributes of a String with the box and the confidence of an edit.

    WC gets two digits, because it is then read correctly as a percentage of Tesseract, too.
    """
    properties = {} if edit.confidence is None else {"WC": f"{edit.confidence:.2f}"}
    if edit.box is None:
        return properties
    left, top, right, bottom = edit.box
    values = map(write_coordinate, (left, top, right - left, bottom - top))
    return dict(zip(BOX_ATTRIBUTES, values, strict=True)) | properties


def _join_parts(first: str, second: str) -> str:
    """Join the two parts of a hyphenated word."""
    return (first[:-1] if first[-1:] and first[-1] in HYPHENS else first) + second


def _new_text(word: Word, index: int, change: WordChange | None) -> str | None:
    """Return the text of a word after a change; None if the change changes the number of words."""
    if change is None:
        return word.text
    parts = change.text.split() or [""] * (change.stop - change.start)
    return parts[index - change.start] if len(parts) == change.stop - change.start else None
