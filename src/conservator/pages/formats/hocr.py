"""hOCR: HTML whose classes mark pages, lines and words, and whose titles hold their properties."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

from conservator.errors import ConservatorError
from conservator.pages.formats.hocr_glyphs import CHARACTER_CLASSES, has_class, read_glyphs, text_runs, word_runs
from conservator.pages.formats.hocr_titles import read_box, read_properties, write_title
from conservator.pages.formats.markup_file import MarkupFile, Passage, WordEdit, WordLocation
from conservator.pages.formats.numbers import read_confidence
from conservator.pages.formats.word_alignment import distribute_text
from conservator.pages.markup import Markup
from conservator.pages.markup.edits import Edits, end_tag, escape, start_tag, tag_name
from conservator.pages.markup.elements import Element, TextRun
from conservator.pages.model import Line, Page, Word
from conservator.pages.transcript import Transcript

PAGE_CLASSES, WORD_CLASSES = {"ocr_page"}, {"ocrx_word", "ocr_word"}
LINE_CLASSES = {"ocr_line", "ocrx_line", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
BLOCK_CLASSES = {"ocr_par", "ocr_carea", "ocrx_block", "ocr_caption", "ocr_header", "ocr_footer", "ocr_textfloat"}
ORIGINAL = "data-original"  # attribute with the text before a change; titles may hold hOCR properties only


@dataclass
class HocrFile(MarkupFile):
    """An hOCR file. A word that is split becomes two spans; words that are joined become one span."""

    not_copied = (ORIGINAL,)

    def set_properties(self, edits: Edits, edit: WordEdit) -> None:
        """Set the ``bbox`` and the ``x_wconf`` in the title of a word."""
        title = edit.element.attributes.get("title", "")
        new_title = write_title(title, edit.box, edit.confidence)
        if new_title != title:
            edits.set_attribute(edit.element, "title", new_title)

    def set_text(self, edits: Edits, edit: WordEdit) -> None:
        """Distribute a text over the runs of text of a word; whitespace around the runs stays."""
        runs = [run for _, run in word_runs(edit.element)]
        if not runs:
            edits.insert(edit.element, edit.element.content_start, escape(edit.text))
            return
        old_values = [run.value.strip() for run in runs]
        new_values = distribute_text(old_values, edit.text)
        for run, old_value, new_value in zip(runs, old_values, new_values, strict=True):
            if new_value != old_value:
                leading, trailing = _surrounding_whitespace(run)
                edits.replace(run.start, run.stop, leading + escape(new_value) + trailing)

    def record_original(self, edits: Edits, element: Element, old_text: str) -> None:
        """Store the original text of a word or line in an attribute."""
        if ORIGINAL not in element.attributes:
            edits.set_attribute(element, ORIGINAL, " ".join(old_text.split()))

    def new_word(self, edits: Edits, edit: WordEdit) -> bytes:
        """Return a span, and the space before it."""
        return b" " + self._start_tag(edit) + escape(edit.text) + end_tag(self.markup.source, edit.element)

    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Delete a span; a span in another word is emptied, because the other word would take its place."""
        element = location.element
        if any(has_class(ancestor, WORD_CLASSES) for ancestor in element.ancestors()):
            edits.replace(element.content_start, element.content_stop, b"")
        else:
            edits.delete(element)

    def regroup(self, edits: Edits, locations: Sequence[WordLocation], word_edits: Sequence[WordEdit]) -> None:
        """Replace words by a different number of words: move the tags, and keep the elements in the words."""
        elements, source = [location.element for location in locations], self.markup.source
        if not all(_are_joinable(source, left, right) for left, right in pairwise([elements[0], *elements])):
            super().regroup(edits, locations, word_edits)
            return
        self.set_properties(edits, word_edits[0])
        self.record_original(edits, elements[0], word_edits[0].old_text)
        for left, right in pairwise(elements):
            edits.replace(left.content_stop, right.content_start, b"")
        runs = [child_and_run for element in elements for child_and_run in word_runs(element)]
        first_start, last_start = runs[0][1].start, runs[-1][1].start
        for run in (run for element in elements for run in text_runs(element)):
            if first_start < run.start < last_start and not run.value.strip():  # it would split the new word
                edits.replace(run.start, run.stop, b"")
        texts = [edit.text for edit in word_edits]
        new_values = distribute_text([run.value.strip() for _, run in runs], "".join(texts))
        tags_at = {  # character offset of a word -> the tags between it and the word before
            start: end_tag(source, elements[0]) + b" " + self._start_tag(edit)
            for start, edit in zip(accumulate(map(len, texts)), word_edits[1:], strict=False)
        }
        offset = 0
        for (child, run), value in zip(runs, new_values, strict=True):
            bounds = [0, *(start - offset for start in tags_at if offset < start < offset + len(value)), len(value)]
            first, *others = [
                (tags_at.get(offset + start, b""), escape(value[start:stop])) for start, stop in pairwise(bounds)
            ]
            tags_before, text = first if value else (b"", b"")
            rest = b"".join(tags + piece for tags, piece in others)
            offset += len(value)
            leading, trailing = _surrounding_whitespace(run)
            leading = leading if run is runs[0][1] else b""  # whitespace between joined words would split the word
            trailing = trailing if run is runs[-1][1] else b""
            if isinstance(child, TextRun):
                edits.replace(run.start, run.stop, leading + tags_before + text + rest + trailing)
            else:
                edits.replace(child.start, child.start, tags_before)
                edits.replace(run.start, run.stop, leading + text + trailing)
                edits.replace(child.stop, child.stop, rest)

    def _start_tag(self, edit: WordEdit) -> bytes:
        """Return the start tag of a new word with the attributes of the word before it."""
        attributes = self.copied_attributes(edit.element)
        attributes["title"] = write_title(attributes.get("title", ""), edit.box, edit.confidence)
        return start_tag(tag_name(self.markup.source, edit.element), attributes) + b">"


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
    return Transcript("hOCR", next(engines, None), "pixel", pages, data, file)


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
        words = file.read_words(elements, partial(_read_word, file))
        if not elements:
            passage = Passage(line, tuple(text_runs(line)))
            words = file.read_passage(passage, 0, len(passage.text))
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
        original=element.attributes.get(ORIGINAL),
    )


def _word_text(element: Element) -> str:
    """Return the text of a word, without whitespace between character elements."""
    if any(has_class(node, CHARACTER_CLASSES) for node in element.walk()):
        return "".join(run.value.strip() for _, run in word_runs(element))
    return "".join(run.value for run in text_runs(element))


def _are_joinable(source: bytes, left: Element, right: Element) -> bool:
    """Return whether two words can become one element.

    Both need the same parent and tag name, the second an end tag, and only whitespace may be between them.
    """
    same = left.parent is right.parent and tag_name(source, left) == tag_name(source, right)
    adjacent = left is right or not source[left.stop : right.start].strip()
    return same and right.content_stop < right.stop and adjacent


def _surrounding_whitespace(run: TextRun) -> tuple[bytes, bytes]:
    """Return the whitespace before and after the text of a run."""
    text = run.value
    return escape(text[: len(text) - len(text.lstrip())]), escape(text[len(text.rstrip()) :] if text.strip() else "")


def _innermost(elements: Sequence[Element], classes: dict[Element, set[str]], wanted: set[str]) -> dict[Element, None]:
    """Return the elements with a wanted class that contain no other such element, in document order."""
    containers: set[Element] = set()
    for element in reversed(elements):
        if element.parent is not None and (element in containers or classes[element] & wanted):
            containers.add(element.parent)
    return {element: None for element in elements if classes[element] & wanted and element not in containers}
