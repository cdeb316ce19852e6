"""PAGE, the XML format of PRImA: polygons, a reading order, and texts of regions, lines, words and glyphs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conservator.errors import ConservatorError
from conservator.pages.formats.markup_file import MarkupFile, Passage, WordLocation, find_words
from conservator.pages.formats.numbers import read_confidence, read_coordinate, write_coordinate
from conservator.pages.formats.word_alignment import replace_words
from conservator.pages.markup import Markup
from conservator.pages.markup.elements import (
    Edits,
    Element,
    TextRun,
    end_tag,
    escape,
    format_attributes,
    qualified_name,
    quote,
)
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

    def set_word(
        self,
        edits: Edits,
        location: WordLocation,
        old_text: str,
        text: str,
        box: Box | None,
        confidence: float | None,
        *,
        split: bool = False,
        glyphs: bytes = b"",
    ) -> None:
        """Change the main text of a word, its confidence and its polygon."""
        element = location.element
        if box is not None:
            coords = element.elements("Coords")
            if coords:
                edits.set_attribute(coords[0], "points", _format_points(box))
        main = _main_text(element)
        assert main is not None
        if confidence is not None:
            edits.set_attribute(main, "conf", f"{confidence:.4g}")
        if text != old_text:
            for content in _contents(main):
                if content.name == CONTENT or content.text().strip() == old_text:
                    _set_text(edits, content, text)
            self._add_original(edits, element, main, old_text)
        if glyphs:
            ends = [child.stop for child in element.elements() if child.name in ("AlternativeImage", "Coords", "Glyph")]
            edits.insert(element, max(ends, default=element.content_start), glyphs)

    def add_word(
        self,
        edits: Edits,
        location: WordLocation,
        text: str,
        previous_box: Box | None,
        box: Box | None,
        new_id: str | None,
        confidence: float | None,
        *,
        is_last: bool,
        glyphs: bytes,
    ) -> None:
        """Add a word after a word."""
        element, source = location.element, self.markup.source
        prefix, name = qualified_name(source, element)
        attributes = {key: value for key, value in element.attributes.items() if " " not in key and key != "comments"}
        attributes |= {"id": new_id} if new_id is not None else {}
        coords = b""
        if box is not None:
            coords = b"<" + prefix + b"Coords points=" + quote(_format_points(box)) + b"/>"
        conf = b"" if confidence is None else b' conf="' + f"{confidence:.4g}".encode() + b'"'
        tag = b"<" + prefix + name + format_attributes(attributes) + b">"
        content = coords + glyphs + self._text_element(prefix, conf, text)
        edits.replace(element.stop, element.stop, tag + content + end_tag(source, element))

    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Delete a word."""
        edits.delete(location.element)

    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a glyph."""
        main = _main_text(glyph)
        return _content(main).strip() if main is not None else ""

    def record_original(self, edits: Edits, passage: Passage) -> None:
        """Add the original text of a line."""
        main = _main_text(passage.element)
        assert main is not None
        self._add_original(edits, passage.element, main, passage.text.strip())

    def update_copies(self, edits: Edits, words: Sequence[Word], changes: Sequence[WordChange]) -> None:
        """Change the texts of lines and regions that repeat their words."""
        for element, indices in self.groups:
            group_changes = [change for change in changes if change.start in indices]
            main = _main_text(element) if group_changes else None
            if main is None:
                continue
            group_words = [words[index].text for index in indices]
            relative_changes = [
                (change.start - indices.start, change.stop - indices.start, change.text) for change in group_changes
            ]
            for content in _contents(main):
                text = replace_words(content.text(), group_words, relative_changes)
                if text is not None and text != content.text():
                    _set_text(edits, content, text)

    def _add_original(self, edits: Edits, element: Element, main: Element, old_text: str) -> None:
        """Add the original text: as a text with a higher index, or as a comment if the version does not allow that."""
        if not self.allows_several_texts:
            comments = element.attributes.get("comments", "")
            if not ORIGINAL_COMMENT.search(comments):
                edits.set_attribute(element, "comments", f"{comments}{'; ' if comments else ''}{ORIGINAL}: {old_text}")
            return
        texts = element.elements(TEXT)
        if any(text.attributes.get("comments") == ORIGINAL for text in texts):
            return
        highest = max([_index(text) for text in texts if "index" in text.attributes], default=0)
        if "index" not in main.attributes:
            edits.set_attribute(main, "index", "0")
        prefix, _ = qualified_name(self.markup.source, main)
        conf = main.attributes.get("conf")
        attributes = b' index="' + str(highest + 1).encode() + b'"'
        attributes += b" conf=" + quote(conf) if conf is not None else b""
        attributes += b' comments="original"'
        edits.replace(texts[-1].stop, texts[-1].stop, self._text_element(prefix, attributes, old_text))

    def _text_element(self, prefix: bytes, attributes: bytes, text: str) -> bytes:
        """Return a TextEquiv element."""
        name, content = prefix + TEXT.encode(), prefix + CONTENT.encode()
        inner = b"<" + content + b">" + escape(text) + b"</" + content + b">"
        return b"<" + name + attributes + b">" + inner + b"</" + name + b">"


def read_page_xml(data: bytes, markup: Markup) -> Transcript:
    """Read PAGE; regions are in its reading order, lines in the order of the file."""
    version = VERSION.search(markup.root.namespace)
    file = PageXmlFile(markup, allows_several_texts=version is None or int(version[1]) >= INDEXED_TEXTS_SINCE)
    pages = tuple(_read_page(file, page) for page in markup.root.elements("Page"))
    creators = (" ".join(element.text().split()) for element in markup.root.walk() if element.name == "Creator")
    return Transcript("PAGE", version[0][1:] if version else None, next(creators, None), "pixel", pages, data, file)


def _read_page(file: PageXmlFile, page: Element) -> Page:
    """Read a page, and append the locations of its words."""
    lines: list[Line] = []
    for block, region in enumerate(_ordered_regions(page)):
        first_word = len(file.locations)
        line_elements = region.elements("TextLine")
        for line in line_elements:
            words = _read_line(file, line)
            if words:
                lines.append(Line(tuple(words), _read_box(file.markup, line), block))
        if line_elements:
            file.groups.append((region, range(first_word, len(file.locations))))
        else:
            lines += [Line(tuple(words), None, block) for words in _read_passage(file, region)]
    sides = [page.attributes.get(name) for name in ("imageWidth", "imageHeight")]
    numbers = [read_coordinate(value, lambda: file.markup.location(page)) for value in sides if value is not None]
    box = Box(0.0, 0.0, *numbers) if len(numbers) == 2 else None
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
    first_word, words = len(file.locations), []
    for element in elements:
        word = _read_word(file, element)
        if word is not None:
            words.append(word)
            file.locations.append(WordLocation(element))
    file.groups.append((line, range(first_word, len(file.locations))))
    return words


def _read_word(file: PageXmlFile, element: Element) -> Word | None:
    """Read a word; None if it has no text."""
    main = _main_text(element)
    text = " ".join(_content(main).split()) if main is not None else ""
    if main is None or not text:
        return None
    original, alternatives = _original_and_alternatives(element, main)
    glyphs = []
    for glyph in element.elements("Glyph"):
        glyph_text = _main_text(glyph)
        if glyph_text is not None:
            confidence = read_confidence(glyph_text.attributes.get("conf"))
            box = _read_box(file.markup, glyph)
            glyph_alternatives = _original_and_alternatives(glyph, glyph_text)[1]
            glyphs.append(Glyph(_content(glyph_text).strip(), confidence, box, glyph_alternatives))
    confidence = read_confidence(main.attributes.get("conf"))
    return Word(text, confidence, _read_box(file.markup, element), tuple(glyphs), alternatives, None, original)


def _read_passage(file: PageXmlFile, element: Element) -> Iterable[list[Word]]:
    """Yield the words of each line of the text of an element, and append their locations."""
    main = _main_text(element)
    content = next(iter(main.elements(CONTENT)), None) if main is not None else None
    if main is None or content is None:
        return
    runs = tuple(child for child in content.children if isinstance(child, TextRun))
    passage = Passage(element, runs)
    confidence = read_confidence(main.attributes.get("conf"))
    offset = 0
    for line in passage.text.split("\n"):
        spans = [(offset + start, offset + stop) for start, stop in find_words(line)]
        file.add_passage(passage, spans)
        if spans:
            yield [Word(passage.text[start:stop], confidence) for start, stop in spans]
        offset += len(line) + 1


def _main_text(element: Element) -> Element | None:
    """Return the TextEquiv with the lowest index, else the first; None if there is none."""
    texts = element.elements(TEXT)
    return min(texts, key=_index) if texts else None


def _original_and_alternatives(element: Element, main: Element) -> tuple[str | None, tuple[TextAlternative, ...]]:
    """Return the original text of an element (None if it was not corrected), and its OCR alternatives."""
    comment = ORIGINAL_COMMENT.search(element.attributes.get("comments", ""))
    original = comment[1] if comment is not None else None
    alternatives = []
    for text in sorted(element.elements(TEXT), key=_index):
        if text is main:
            continue
        if text.attributes.get("comments") == ORIGINAL:
            original = _content(text).strip()
        else:
            confidence = read_confidence(text.attributes.get("conf"))
            alternatives.append(TextAlternative(_content(text).strip(), confidence))
    return original, tuple(alternatives)


def _content(text: Element) -> str:
    """Return the characters of a TextEquiv."""
    return "".join(content.text() for content in text.elements(CONTENT)[:1])


def _contents(text: Element) -> list[Element]:
    """Return the elements with the characters of a TextEquiv: Unicode and PlainText."""
    return [*text.elements(CONTENT)[:1], *text.elements("PlainText")[:1]]


def _index(element: Element) -> int:
    """Return the index of an element; 0 if it has none."""
    value = element.attributes.get("index", "0").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


def _read_box(markup: Markup, element: Element) -> Box | None:
    """Return the box around the polygon of an element; None if it has none."""
    points = " ".join(coords.attributes.get("points", "") for coords in element.elements("Coords")[:1]).split()
    numbers = []
    for point in points:
        pair = point.split(",")
        if len(pair) != 2:
            raise ConservatorError(
                f"{markup.location(element)}: a point must be two numbers with a comma between, got {point[:40]!r}"
            )
        numbers.append([read_coordinate(value, lambda: markup.location(element)) for value in pair])
    if not numbers:
        return None
    horizontal, vertical = zip(*numbers, strict=True)
    return Box(min(horizontal), min(vertical), max(horizontal), max(vertical))


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
