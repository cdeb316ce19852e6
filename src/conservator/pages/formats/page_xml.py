"""PAGE, the XML format of PRImA: polygons, a reading order, and texts of regions, lines, words and glyphs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from conservator.errors import ConservatorError
from conservator.pages.formats.markup_file import MarkupFile, Passage, WordEdit
from conservator.pages.formats.numbers import read_confidence, write_coordinate
from conservator.pages.formats.word_alignment import replace_words
from conservator.pages.markup import Markup
from conservator.pages.markup.edits import Edits, escape, new_element
from conservator.pages.markup.elements import Element, TextRun
from conservator.pages.model import Box, Glyph, Line, Page, TextAlternative, Word, WordChange
from conservator.pages.transcript import Transcript

ORIGINAL = "original"  # comment that marks the text before a change
ORIGINAL_COMMENT = re.compile(rf"(?:^|; ){ORIGINAL}: (.*)$", re.DOTALL)
VERSION = re.compile(r"/(\d{4})-\d\d-\d\d$")
INDEXED_TEXTS_SINCE = 2016  # year: first version whose elements may have several texts with an index [definition]
REGION_REFERENCES = ("RegionRef", "RegionRefIndexed")
TEXT, CONTENT = "TextEquiv", "Unicode"


@dataclass
class PageXmlFile(MarkupFile):
    """A PAGE file. A word that is split becomes two ``Word`` elements, with rectangles as polygons.

    Attributes:
        groups: elements whose text repeats words, with the indices of these words.
        allows_several_texts: whether the version allows several texts per element.
    """

    groups: list[tuple[Element, range]] = field(default_factory=list)
    allows_several_texts: bool = True
    not_copied = ("comments",)

    def set_properties(self, edits: Edits, edit: WordEdit) -> None:
        """Set the polygon of a word, and the confidence of its main text."""
        coords = edit.element.elements("Coords")
        if edit.box is not None and coords:
            edits.set_attribute(coords[0], "points", _format_points(edit.box))
        if edit.confidence is not None:
            edits.set_attribute(_texts(edit.element)[0], "conf", f"{edit.confidence:.4g}")

    def set_text(self, edits: Edits, edit: WordEdit) -> None:
        """Set the main text of a word."""
        for content in _contents(edit.element):
            if content.name == CONTENT or content.text().strip() == edit.old_text:
                _set_text(edits, content, edit.text)

    def record_original(self, edits: Edits, element: Element, old_text: str) -> None:
        """Add the original text: as a text with a higher index, or as a comment if the version does not allow that."""
        if not self.allows_several_texts:
            comments = element.attributes.get("comments", "")
            if not ORIGINAL_COMMENT.search(comments):
                comment = f"{comments}{'; ' if comments else ''}{ORIGINAL}: {old_text.strip()}"
                edits.set_attribute(element, "comments", comment)
            return
        main, texts = _texts(element)[0], element.elements(TEXT)
        if any(text.attributes.get("comments") == ORIGINAL for text in texts):
            return
        highest = max([_index(text) for text in texts if "index" in text.attributes], default=0)
        if "index" not in main.attributes:
            edits.set_attribute(main, "index", "0")
        attributes = {"index": str(highest + 1), "conf": main.attributes.get("conf"), "comments": ORIGINAL}
        edits.replace(texts[-1].stop, texts[-1].stop, self._new_text(main, attributes, old_text.strip()))

    def new_word(self, edits: Edits, edit: WordEdit) -> bytes:
        """Return a word."""
        element, source = edit.element, self.markup.source
        coords = b""
        if edit.box is not None:
            coords = new_element(source, element, "Coords", {"points": _format_points(edit.box)})
        conf = None if edit.confidence is None else f"{edit.confidence:.4g}"
        content = coords + edit.glyphs + self._new_text(element, {"conf": conf}, edit.text)
        return new_element(source, element, element.name, self.copied_attributes(element), content)

    def _new_text(self, sibling: Element, attributes: dict[str, str | None], text: str) -> bytes:
        """Return a TextEquiv element; attributes that are None are left out."""
        content = new_element(self.markup.source, sibling, CONTENT, {}, escape(text))
        present = {name: value for name, value in attributes.items() if value is not None}
        return new_element(self.markup.source, sibling, TEXT, present, content)

    def glyph_offset(self, element: Element) -> int:
        """Return the offset at which glyphs are inserted into a word."""
        ends = [child.stop for child in element.elements() if child.name in ("AlternativeImage", "Coords", "Glyph")]
        return max(ends, default=element.content_start)

    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a glyph."""
        return _main_text(glyph)

    def update_copies(self, edits: Edits, words: Sequence[Word], changes: Sequence[WordChange]) -> None:
        """Change the texts of lines and regions that repeat their words."""
        for element, indices in self.groups:
            group_changes = [
                (change.start - indices.start, change.stop - indices.start, change.text)
                for change in changes
                if change.start in indices
            ]
            if not group_changes:
                continue
            group_words = [words[index].text for index in indices]
            for content in _contents(element):
                text = replace_words(content.text(), group_words, group_changes)
                if text is not None and text != content.text():
                    _set_text(edits, content, text)


def read_page_xml(data: bytes, markup: Markup) -> Transcript:
    """Read PAGE; regions are in its reading order, lines in the order of the file."""
    version = VERSION.search(markup.root.namespace)
    file = PageXmlFile(markup, allows_several_texts=version is None or int(version[1]) >= INDEXED_TEXTS_SINCE)
    pages = tuple(_read_page(file, page) for page in markup.root.elements("Page"))
    creators = (" ".join(element.text().split()) for element in markup.root.walk() if element.name == "Creator")
    return Transcript("PAGE", next(creators, None), "pixel", pages, data, file)


def _read_page(file: PageXmlFile, page: Element) -> Page:
    """Read a page, and append the locations of its words."""
    lines: list[Line] = []
    for block, region in enumerate(_ordered_regions(page)):
        first_word = len(file.locations)
        line_elements = region.elements("TextLine")
        for line in line_elements:
            words = _read_line(file, line)
            if words:
                lines.append(Line(tuple(words), _read_box(file, line), block))
        if line_elements:
            file.groups.append((region, range(first_word, len(file.locations))))
        else:
            lines += [Line(tuple(words), None, block) for words in _read_passage(file, region)]
    box = file.read_page_box(page, "imageWidth", "imageHeight")
    return Page(tuple(lines), box, page.attributes.get("imageFilename") or None)


def _ordered_regions(page: Element) -> list[Element]:
    """Return the text regions of a page: first those in its reading order, then the others.

    A region that is not in the reading order has the rank of the region around it.
    """
    references: list[str] = []
    for order in page.elements("ReadingOrder"):
        for group in order.elements():
            references += _region_references(group)
    rank_of_id = {region_id: rank for rank, region_id in reversed(list(enumerate(references)))}
    ranks: dict[Element, int] = {page: len(references)}
    regions = []
    for element in page.walk():
        if element is not page:
            parent_rank = ranks.get(element.parent or page, len(references))
            is_region = element.name.endswith("Region")
            ranks[element] = rank_of_id.get(element.attributes.get("id", ""), parent_rank) if is_region else parent_rank
        if element.name == "TextRegion":
            regions.append(element)
    return sorted(regions, key=lambda region: ranks[region])


def _region_references(group: Element) -> Iterable[str]:
    """Yield the identifiers of the regions in a group of a reading order, in order."""
    children = group.elements()
    if group.name.startswith("Ordered"):
        children = sorted(children, key=_index)
    for child in children:
        if child.name in REGION_REFERENCES:
            yield child.attributes.get("regionRef", "")
        elif "Group" in child.name:
            if "regionRef" in child.attributes:
                yield child.attributes["regionRef"]
            yield from _region_references(child)


def _read_line(file: PageXmlFile, line: Element) -> list[Word]:
    """Read the words of a line, from its Word elements or from its text."""
    elements = line.elements("Word")
    if not elements:
        return [word for words in _read_passage(file, line) for word in words]
    first_word = len(file.locations)
    words = file.read_words(elements, partial(_read_word, file))
    file.groups.append((line, range(first_word, len(file.locations))))
    return words


def _read_word(file: PageXmlFile, element: Element) -> Word | None:
    """Read a word; None if it has no text."""
    text = " ".join(_main_text(element).split())
    if not text:
        return None
    glyphs = tuple(
        Glyph(_main_text(glyph), _confidence(glyph), _read_box(file, glyph), _alternatives(glyph))
        for glyph in element.elements("Glyph")
        if glyph.elements(TEXT)
    )
    return Word(text, _confidence(element), _read_box(file, element), glyphs, original=_original(element))


def _read_passage(file: PageXmlFile, element: Element) -> Iterable[list[Word]]:
    """Yield the words of each line of the text of an element, and append their locations."""
    runs = [child for content in _contents(element) if content.name == CONTENT for child in content.children]
    passage = Passage(element, tuple(run for run in runs if isinstance(run, TextRun)))
    confidence, offset = _confidence(element), 0
    for line in passage.text.split("\n"):
        words = file.read_passage(passage, offset, offset + len(line), confidence)
        if words:
            yield words
        offset += len(line) + 1


def _texts(element: Element) -> list[Element]:
    """Return the TextEquiv elements by their index: first the main text, then the others."""
    return sorted(element.elements(TEXT), key=_index)


def _contents(element: Element) -> list[Element]:
    """Return the elements with the characters of the main text: Unicode and PlainText."""
    return [
        content
        for main in _texts(element)[:1]
        for name in (CONTENT, "PlainText")
        for content in main.elements(name)[:1]
    ]


def _main_text(element: Element) -> str:
    """Return the main text of an element; empty if there is none."""
    return "".join(_content(text) for text in _texts(element)[:1])


def _content(text: Element) -> str:
    """Return the characters of a TextEquiv."""
    return "".join(content.text() for content in text.elements(CONTENT)[:1]).strip()


def _confidence(element: Element) -> float | None:
    """Return the confidence of the main text of an element; None if there is none."""
    return next((read_confidence(text.attributes.get("conf")) for text in _texts(element)), None)


def _original(word: Element) -> str | None:
    """Return the original text of a word; None if it was not corrected."""
    comment = ORIGINAL_COMMENT.search(word.attributes.get("comments", ""))
    texts = [_content(text) for text in _texts(word)[1:] if text.attributes.get("comments") == ORIGINAL]
    return texts[-1] if texts else comment[1] if comment else None


def _alternatives(glyph: Element) -> tuple[TextAlternative, ...]:
    """Return the OCR alternatives of a glyph."""
    return tuple(
        TextAlternative(_content(text), read_confidence(text.attributes.get("conf")))
        for text in _texts(glyph)[1:]
        if text.attributes.get("comments") != ORIGINAL
    )


def _index(element: Element) -> int:
    """Return the index of an element; 0 if it has none."""
    value = element.attributes.get("index", "0").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


def _read_box(file: PageXmlFile, element: Element) -> Box | None:
    """Return the box around the polygon of an element; None if it has none."""
    points = " ".join(coords.attributes.get("points", "") for coords in element.elements("Coords")[:1]).split()
    for point in points:
        if point.count(",") != 1:
            raise ConservatorError(
                f"{file.markup.location(element)}: a point must be two numbers with a comma between, got {point[:40]!r}"
            )
    numbers = file.coordinates(element, [value for point in points for value in point.split(",")])
    if not numbers:
        return None
    return Box(min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2]))


def _format_points(box: Box) -> str:
    """Format a box as a polygon."""
    left, top, right, bottom = map(write_coordinate, (round(value) for value in box))
    return f"{left},{top} {right},{top} {right},{bottom} {left},{bottom}"


def _set_text(edits: Edits, element: Element, text: str) -> None:
    """Replace the text of an element."""
    runs = [child for child in element.children if isinstance(child, TextRun)]
    if not runs:
        edits.insert(element, element.content_start, escape(text))
    for index, run in enumerate(runs):
        edits.replace(run.start, run.stop, escape(text) if index == 0 else b"")
