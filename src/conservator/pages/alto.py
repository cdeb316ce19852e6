"""ALTO: XML of the Library of Congress, in which a ``String`` is a word and ``SP`` the space after it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from conservator.pages.elements import Edits, Element, end_tag, escape, qualified, quote
from conservator.pages.markup import Markup
from conservator.pages.markup_file import MarkupFile, Passage, Place
from conservator.pages.model import Alternative, Box, Change, Glyph, Line, Page, Word
from conservator.pages.numbers import read_confidence, read_coordinate, write_coordinate
from conservator.pages.transcript import Transcript

ORIGINAL = "original"  # the PURPOSE of the ALTERNATIVE that holds the original of a change
CORNERS = ("HPOS", "VPOS", "WIDTH", "HEIGHT")
VERSION = re.compile(r"alto-(\d+)-(\d+)\.xsd")
SPACE = re.compile(r"/alto/(?:ns-)?v(\d+)")
PERCENT = re.compile(r"0\.(\d{1,2}|100)")  # how Tesseract writes a percentage: "0.9" is 9 %, "0.100" is 100 %
HYPHENS = "-\u00ad\u00ac\u2010\u2e17="  # what ends the first part of a hyphenated word
OWN = ("CC", "SUBS_TYPE", "SUBS_CONTENT")  # attributes that a part of a String does not share
LEAST = 9  # how an uncertain character is rated; a sure one by 0


@dataclass
class Alto(MarkupFile):
    """A file in ALTO. A word that becomes two is two ``String`` with an ``SP`` between them."""

    def set_word(
        self,
        edits: Edits,
        place: Place,
        before: str,
        text: str,
        box: Box | None,
        confidence: float | None,
        *,
        split: bool = False,
        glyphs: bytes = b"",
    ) -> None:
        """Change the CONTENT, the corners and the WC of a String.

        WC has two digits, so that it means the same to those who read a percentage of Tesseract.
        """
        element = place.element
        if box is not None:
            for name, value in zip(CORNERS, _corners(box), strict=True):
                edits.attribute(element, name, value)
        if confidence is not None:
            edits.attribute(element, "WC", f"{confidence:.2f}")
        if text == before:
            return
        edits.attribute(element, "CONTENT", text if split else self._without_hyphen(edits, place, text))
        if not any(one.attributes.get("PURPOSE") == ORIGINAL for one in element.elements("ALTERNATIVE")):
            prefix, _ = qualified(self.markup.source, element)
            held = prefix + b"ALTERNATIVE"
            held = b"<" + held + b' PURPOSE="original">' + escape(before) + b"</" + held + b">"
            ahead = [one.stop for one in element.elements() if one.name in ("Shape", "ALTERNATIVE")]
            edits.insert(element, max(ahead, default=element.inside), held)
        if glyphs:
            edits.insert(element, element.close, glyphs)

    def add_word(
        self,
        edits: Edits,
        place: Place,
        text: str,
        gap: tuple[Box | None, Box | None],
        name: str | None,
        confidence: float | None,
        *,
        last: bool,
        glyphs: bytes,
    ) -> None:
        """Add a space and a String after a String."""
        element, source = place.element, self.markup.source
        before, box = gap
        attributes = {key: value for key, value in element.attributes.items() if " " not in key and key not in OWN}
        attributes["CONTENT"] = self._without_hyphen(edits, place, text) if last else text
        attributes |= {"ID": name} if name is not None else {}
        attributes |= {"WC": f"{confidence:.2f}"} if confidence is not None else {}
        space = b""
        if before is not None and box is not None:
            attributes |= dict(zip(CORNERS, _corners(box), strict=True))
            places = {"HPOS": before.right, "VPOS": before.top, "WIDTH": max(0.0, box.left - before.right)}
            space = _written({key: write_coordinate(value) for key, value in places.items()})
        prefix, own = qualified(source, element)
        end = b">" + glyphs + end_tag(source, element) if glyphs else b"/>"
        made = b"<" + prefix + b"SP" + space + b"/><" + prefix + own + _written(attributes) + end
        edits.replace(element.stop, element.stop, made)

    def remove_word(self, edits: Edits, first: Place, place: Place) -> None:
        """Take out a String and the spaces before it."""
        parent = place.element.parent
        assert parent is not None
        around = parent.elements()
        index = around.index(place.element)
        while index > 0 and around[index - 1].name == "SP" and around[index - 1].start > first.element.start:
            edits.delete(around[index - 1])
            index -= 1
        edits.delete(place.element)

    def glyph_text(self, glyph: Element) -> str:
        """The text of a glyph."""
        return glyph.attributes.get("CONTENT", "")

    def mark_passage(self, edits: Edits, passage: Passage) -> None:
        """There are no passages: every word is a String."""
        raise AssertionError("ALTO has no passages")

    def follow(self, edits: Edits, words: Sequence[Word], changes: Sequence[Change]) -> None:
        """Change the whole word in both parts of one that is hyphenated, if it was the two parts together.

        Where a part was joined with other words, or parted, neither part is said to be one any more.
        """
        touched = {at: change for change in changes for at in range(change.start, change.stop)}
        for at in sorted({one for place in touched for one in (place - 1, place)}):
            if at < 0 or at + 1 >= len(words) or (self._part(at), self._part(at + 1)) != ("HypPart1", "HypPart2"):
                continue
            new = [_new_text(words[one], one, touched.get(one)) for one in (at, at + 1)]
            whole = _joined(words[at].text, words[at + 1].text)
            for one in (at, at + 1):
                change, element = touched.get(one), self.places[one].element
                if None in new:
                    if change is None or change.start == one:  # the element of any other word is gone
                        edits.drop(element, "SUBS_TYPE")
                        edits.drop(element, "SUBS_CONTENT")
                elif words[one].whole == whole:
                    edits.attribute(element, "SUBS_CONTENT", _joined(str(new[0]), str(new[1])))

    def _part(self, at: int) -> str | None:
        """Which part of a hyphenated word a word is."""
        return self.places[at].element.attributes.get("SUBS_TYPE")

    def _without_hyphen(self, edits: Edits, place: Place, text: str) -> str:
        """A text without the hyphen that has an element; the element goes if the text does not end with one hyphen."""
        if place.hyphen is None:
            return text
        sign = place.hyphen.attributes.get("CONTENT", "").strip()
        rest = text.removesuffix(sign)
        if rest in ("", text) or rest.endswith(sign):  # which would be read as another text
            edits.delete(place.hyphen)
            return text
        return rest


def read_alto(data: bytes, markup: Markup) -> Transcript:
    """Read ALTO; lines are in the order of the file."""
    file, root = Alto(markup), markup.root
    elements = list(root.walk())
    named = {one.name: one.text().strip() for one in reversed(elements) if one.name in ("MeasurementUnit", "fileName")}
    engines = [" ".join(one.text().split()) for one in elements if one.name == "softwareName"]
    tesseract = any("tesseract" in engine.lower() for engine in engines)
    found: dict[Element, list[Element]] = {one: [] for one in elements if one.name == "Page"}
    for line in elements:
        if line.name == "TextLine":
            found.setdefault(next((one for one in _above(line) if one.name == "Page"), root), []).append(line)
    pages = []
    for page, inside in found.items():
        lines: list[Line] = []
        blocks: dict[Element | None, int] = {}
        for line in inside:
            words = _read_words(file, line, tesseract=tesseract)
            if words:
                number = blocks.setdefault(line.parent, len(blocks))
                lines.append(Line(tuple(words), _box(markup, line), number))
        pages.append(Page(tuple(lines), _page_box(markup, page), named.get("fileName") or None))
    unit = named.get("MeasurementUnit") or "pixel"
    return Transcript("ALTO", _version(root), next(iter(engines), None), unit, tuple(pages), data, file)


def _above(element: Element) -> list[Element]:
    """The elements around an element, from the inside out."""
    found = []
    while element.parent is not None:
        element = element.parent
        found.append(element)
    return found


def _read_words(file: Alto, line: Element, *, tesseract: bool) -> list[Word]:
    """The words of a line."""
    words: list[Word] = []
    strings = [one for one in line.elements() if one.name in ("String", "HYP")]
    for index, element in enumerate(strings):
        if element.name == "HYP":
            continue
        follows = strings[index + 1] if index + 1 < len(strings) else None
        hyphen = follows if follows is not None and follows.name == "HYP" else None
        content = " ".join(element.attributes.get("CONTENT", "").split())
        sign = hyphen.attributes.get("CONTENT", "").strip() if hyphen is not None else ""
        hyphen = hyphen if sign and content and not content.endswith(sign) else None
        if content:
            words.append(_read_word(file.markup, element, content, sign if hyphen else "", tesseract=tesseract))
            file.places.append(Place(element, hyphen=hyphen))
    return words


def _read_word(markup: Markup, element: Element, content: str, sign: str, *, tesseract: bool) -> Word:
    """A word, with the sign of its hyphen."""
    others = [(one.attributes.get("PURPOSE"), " ".join(one.text().split())) for one in element.elements("ALTERNATIVE")]
    attributes = element.attributes
    hyphenated = attributes.get("SUBS_TYPE") in ("HypPart1", "HypPart2")
    glyphs = _read_glyphs(markup, element, content)
    return Word(
        content + sign,
        _confidence(attributes.get("WC"), tesseract=tesseract),
        _box(markup, element),
        (*glyphs, Glyph(sign)) if glyphs and sign else glyphs,
        tuple(Alternative(text, None) for purpose, text in others if purpose != ORIGINAL),
        attributes.get("SUBS_CONTENT") if hyphenated else None,
        next((text for purpose, text in others if purpose == ORIGINAL), None),
    )


def _read_glyphs(markup: Markup, element: Element, content: str) -> tuple[Glyph, ...]:
    """The characters of a word: its glyphs with their variants, or its list of ratings from 0 (sure) to 9."""
    glyphs = tuple(
        Glyph(
            one.attributes.get("CONTENT", ""),
            read_confidence(one.attributes.get("GC")),
            _box(markup, one),
            tuple(
                Alternative(other.attributes.get("CONTENT", ""), read_confidence(other.attributes.get("VC")))
                for other in one.elements("Variant")
            ),
        )
        for one in element.elements("Glyph")
    )
    ratings = "".join(element.attributes.get("CC", "").split())
    if not glyphs and len(ratings) == len(content) and ratings.isascii() and ratings.isdigit():
        return tuple(Glyph(one, 1 - int(digit) / LEAST) for one, digit in zip(content, ratings, strict=True))
    return glyphs


def _confidence(value: str | None, *, tesseract: bool) -> float | None:
    """A confidence. Tesseract writes "0." and then a whole percentage, as many digits as it has."""
    if tesseract and value is not None and PERCENT.fullmatch(value):
        return int(value[2:]) / 100
    return read_confidence(value)


def _box(markup: Markup, element: Element) -> Box | None:
    """The box of an element that has all four corners."""
    values = [element.attributes.get(name) for name in CORNERS]
    numbers = [read_coordinate(value, lambda: markup.where(element)) for value in values if value is not None]
    if len(numbers) < len(CORNERS):
        return None
    left, top, width, height = numbers
    return Box(left, top, left + width, top + height)


def _page_box(markup: Markup, page: Element) -> Box | None:
    """The box of a page, which begins at 0."""
    values = [page.attributes.get(name) for name in ("WIDTH", "HEIGHT")]
    numbers = [read_coordinate(value, lambda: markup.where(page)) for value in values if value is not None]
    return Box(0.0, 0.0, *numbers) if len(numbers) == 2 else None


def _corners(box: Box) -> list[str]:
    """A box as the values of CORNERS."""
    return [write_coordinate(value) for value in (box.left, box.top, box.right - box.left, box.bottom - box.top)]


def _written(attributes: dict[str, str]) -> bytes:
    """Attributes as a tag has them."""
    return b"".join(b" " + key.encode() + b"=" + quote(value) for key, value in attributes.items())


def _joined(first: str, second: str) -> str:
    """The two parts of a hyphenated word together."""
    return (first[:-1] if first[-1:] and first[-1] in HYPHENS else first) + second


def _new_text(word: Word, at: int, change: Change | None) -> str | None:
    """The text of a word after a change; None if it does not stay one word."""
    if change is None:
        return word.text
    parts = change.text.split() or [""] * (change.stop - change.start)
    return parts[at - change.start] if len(parts) == change.stop - change.start else None


def _version(root: Element) -> str | None:
    """The version of ALTO that a file names, by itself, by its schema or by its namespace."""
    where = next((value for key, value in root.attributes.items() if key.endswith("schemaLocation")), "")
    schema, space = VERSION.search(where), SPACE.search(root.space)
    named = ".".join(schema.groups()) if schema else space[1] if space else None
    return root.attributes.get("SCHEMAVERSION") or named
