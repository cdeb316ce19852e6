"""hOCR: HTML whose classes mark pages, lines and words, and whose titles hold their properties."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from conservator.errors import ConservatorError
from conservator.pages.formats.hocr_glyphs import (
    CHARACTER_CLASSES,
    child_word_runs,
    has_class,
    read_glyphs,
    text_runs,
    word_runs,
)
from conservator.pages.formats.hocr_titles import read_box, read_properties, write_title
from conservator.pages.formats.markup_file import (
    MarkupFile,
    Passage,
    WordLocation,
    find_words,
    set_run_text,
    surrounding_whitespace,
)
from conservator.pages.formats.numbers import read_confidence
from conservator.pages.formats.word_alignment import distribute_text
from conservator.pages.markup import Markup
from conservator.pages.markup.elements import (
    Edits,
    Element,
    TextRun,
    end_tag,
    escape,
    format_attributes,
    qualified_name,
)
from conservator.pages.model import Box, Line, Page, TextAlternative, Word
from conservator.pages.transcript import Transcript

PAGE_CLASSES, WORD_CLASSES = {"ocr_page"}, {"ocrx_word", "ocr_word"}
LINE_CLASSES = {"ocr_line", "ocrx_line", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
BLOCK_CLASSES = {"ocr_par", "ocr_carea", "ocrx_block", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
ORIGINAL = "data-original"  # attribute with the text before a change; titles may hold hOCR properties only


@dataclass
class HocrFile(MarkupFile):
    """An hOCR file. A word that is split becomes two spans; words that are joined become one span."""

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
        """Change the text, the ``bbox`` and the ``x_wconf`` of a word."""
        element = location.element
        self._set_properties(edits, element, old_text if text != old_text else None, box, confidence)
        if text == old_text:
            return
        runs = word_runs(element)
        if not runs:
            edits.insert(element, element.content_start, escape(text))
        elif len(runs) == 1:
            set_run_text(edits, runs[0], text)
        else:
            old_values = [run.value.strip() for run in runs]
            new_values = distribute_text(old_values, text)
            for run, old_value, new_value in zip(runs, old_values, new_values, strict=True):
                if new_value != old_value:
                    set_run_text(edits, run, new_value)

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
        """Add a span after a word."""
        element = location.element
        tag = self._start_tag(element, new_id, box, confidence)
        edits.replace(element.stop, element.stop, b" " + tag + escape(text) + end_tag(self.markup.source, element))

    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Delete a span; a span in another word is emptied, because the other word would take its place."""
        element = location.element
        if _is_in_word(element):
            edits.replace(element.content_start, element.content_stop, b"")
        else:
            edits.delete(element)

    def regroup(
        self,
        edits: Edits,
        locations: Sequence[WordLocation],
        old_text: str,
        parts: Sequence[str],
        boxes: Sequence[Box | None],
        confidence: float | None,
    ) -> None:
        """Replace words by a different number of words: move the tags, and keep the elements in the words."""
        elements, source = [location.element for location in locations], self.markup.source
        if not all(_are_joinable(source, left, right) for left, right in pairwise([elements[0], *elements])):
            super().regroup(edits, locations, old_text, parts, boxes, confidence)
            return
        self._set_properties(edits, elements[0], old_text, boxes[0], confidence)
        for left, right in pairwise(elements):
            edits.replace(left.content_stop, right.content_start, b"")
        runs = [(child, run) for element in elements for child in element.children for run in child_word_runs(child)]
        new_values = distribute_text([run.value.strip() for _, run in runs], "".join(parts))
        part_starts = list(accumulate(map(len, parts), initial=0))
        tags_at = {}  # character offset of a part -> the tags between it and the part before
        for start, box in zip(part_starts[1:-1], boxes[1:], strict=True):
            tag = self._start_tag(elements[0], self.new_id(elements[0]), box, confidence)
            tags_at[start] = end_tag(source, elements[0]) + b" " + tag
        offset = 0
        for (child, run), value in zip(runs, new_values, strict=True):
            bounds = [0, *(start - offset for start in tags_at if offset < start < offset + len(value)), len(value)]
            pieces = [escape(value[start:stop]) for start, stop in pairwise(bounds)]
            rest = b"".join(
                tags_at[offset + bound] + piece for bound, piece in zip(bounds[1:-1], pieces[1:], strict=True)
            )
            tags_before = tags_at.get(offset, b"") if value else b""
            offset += len(value)
            leading, trailing = surrounding_whitespace(run)
            if isinstance(child, TextRun):
                edits.replace(run.start, run.stop, leading + tags_before + pieces[0] + rest + trailing)
            else:
                edits.replace(child.start, child.start, tags_before)
                edits.replace(run.start, run.stop, leading + pieces[0] + trailing)
                edits.replace(child.stop, child.stop, rest)

    def _set_properties(
        self, edits: Edits, element: Element, old_text: str | None, box: Box | None, confidence: float | None
    ) -> None:
        """Set the box, the confidence and the original text of a word, each unless it is None."""
        title = write_title(element.attributes.get("title", ""), box, confidence)
        if title != element.attributes.get("title", ""):
            edits.set_attribute(element, "title", title)
        if old_text is not None and ORIGINAL not in element.attributes:
            edits.set_attribute(element, ORIGINAL, old_text)

    def _start_tag(self, element: Element, new_id: str | None, box: Box | None, confidence: float | None) -> bytes:
        """Return the start tag of a new word with the attributes of another word."""
        attributes = {name: value for name, value in element.attributes.items() if " " not in name and name != ORIGINAL}
        attributes["title"] = write_title(attributes.get("title", ""), box, confidence)
        attributes |= {"id": new_id} if new_id is not None else {}
        name = b"".join(qualified_name(self.markup.source, element))
        return b"<" + name + format_attributes(attributes) + b">"

    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a character element."""
        return glyph.text().strip()

    def record_original(self, edits: Edits, passage: Passage) -> None:
        """Store the original text of a line in an attribute."""
        if ORIGINAL not in passage.element.attributes:
            edits.set_attribute(passage.element, ORIGINAL, " ".join(passage.text.split()))


def read_hocr(data: bytes, markup: Markup) -> Transcript:
    """Read hOCR."""
    elements = list(markup.root.walk())
    classes = {element: set(element.attributes.get("class", "").split()) for element in elements}
    lines, words = _innermost(elements, classes, LINE_CLASSES), _innermost(elements, classes, WORD_CLASSES)
    page_and_block: dict[Element, tuple[Element, Element]] = {}
    words_of_lines: dict[Element, dict[Element, list[Element]]] = {}  # page -> line -> words
    line_of: dict[Element, Element] = {}
    for element in elements:
        page, block = page_and_block.get(element.parent or element, (markup.root, markup.root))
        page = element if classes[element] & PAGE_CLASSES else page
        block = element if page is element or (classes[element] & BLOCK_CLASSES and element not in lines) else block
        page_and_block[element] = page, block
        if element in lines:
            line_of[element] = element
            words_of_lines.setdefault(page, {}).setdefault(element, [])
        elif element.parent in line_of:
            line_of[element] = line_of[element.parent]
        if classes[element] & PAGE_CLASSES:
            words_of_lines.setdefault(element, {})
        if element in words:
            line = line_of.get(element) or element.parent or element
            words_of_lines.setdefault(page, {}).setdefault(line, []).append(element)
    if not words_of_lines:
        raise ConservatorError(
            "the HTML has no pages, lines or words of hOCR: no element has the class ocr_page, ocr_line or ocrx_word"
        )
    file = HocrFile(markup)
    pages = tuple(_read_page(file, page, lines, page_and_block) for page, lines in words_of_lines.items())
    engines = (
        element.attributes.get("content") for element in elements if element.attributes.get("name") == "ocr-system"
    )
    return Transcript("hOCR", None, next(engines, None), "pixel", pages, data, file)


def _read_page(
    file: HocrFile,
    page: Element,
    words_of_lines: dict[Element, list[Element]],
    page_and_block: dict[Element, tuple[Element, Element]],
) -> Page:
    """Read a page, and append the locations of its words."""
    lines: list[Line] = []
    blocks: dict[Element, int] = {}
    for line, elements in words_of_lines.items():
        words = []
        for element in elements:
            word = _read_word(file, element)
            if word is not None:
                words.append(word)
                file.locations.append(WordLocation(element))
        if not elements:
            passage = Passage(line, tuple(text_runs(line)))
            spans = find_words(passage.text)
            file.add_passage(passage, spans)
            words = [Word(passage.text[slice(*span)]) for span in spans]
        if words:
            block = blocks.setdefault(page_and_block[line][1], len(blocks))
            lines.append(Line(tuple(words), read_box(file.markup, line), block))
    image = read_properties(page).get("image", "").strip().strip('"')
    return Page(tuple(lines), read_box(file.markup, page), image or None)


def _read_word(file: HocrFile, element: Element) -> Word | None:
    """Read a word; None if it has no text."""
    text = " ".join(_word_text(element).split())
    if not text:
        return None
    properties = read_properties(element)
    return Word(
        text,
        read_confidence(properties.get("x_wconf"), 100),
        read_box(file.markup, element),
        read_glyphs(file.markup, element, text),
        tuple(TextAlternative(node.text().strip(), None) for node in element.walk() if node.name == "del"),
        original=element.attributes.get(ORIGINAL),
    )


def _word_text(element: Element) -> str:
    """Return the text of a word, without whitespace between character elements."""
    if any(has_class(node, CHARACTER_CLASSES) for node in element.walk()):
        return "".join(run.value.strip() for run in word_runs(element))
    return "".join(run.value for run in text_runs(element))


def _are_joinable(source: bytes, left: Element, right: Element) -> bool:
    """Return whether two words can become one element.

    Both need the same parent and tag name, the second an end tag, and only whitespace may be between them.
    """
    same = left.parent is right.parent and qualified_name(source, left) == qualified_name(source, right)
    adjacent = left is right or not source[left.stop : right.start].strip()
    return same and right.content_stop < right.stop and adjacent


def _is_in_word(element: Element) -> bool:
    """Return whether an element is a descendant of a word."""
    ancestor = element.parent
    while ancestor is not None and not has_class(ancestor, WORD_CLASSES):
        ancestor = ancestor.parent
    return ancestor is not None


def _innermost(elements: Sequence[Element], classes: dict[Element, set[str]], wanted: set[str]) -> dict[Element, None]:
    """Return the elements with a wanted class that contain no other such element, in document order."""
    containers: set[Element] = set()
    for element in reversed(elements):
        if element.parent is not None and (element in containers or classes[element] & wanted):
            containers.add(element.parent)
    return {element: None for element in elements if classes[element] & wanted and element not in containers}
