"""Base class of hOCR, ALTO and PAGE files whose words can be changed."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, count
from typing import ClassVar

from conservator.documents import splice
from conservator.pages.formats.numbers import divide_boxes, read_coordinate
from conservator.pages.formats.word_alignment import WORD, distribute_text
from conservator.pages.markup import Markup
from conservator.pages.markup.edits import Edits, escape
from conservator.pages.markup.elements import Element, TextRun
from conservator.pages.model import Box, Word, WordChange


@dataclass(frozen=True, eq=False)
class Passage:
    """Text of several words in one element, for files that have no elements for words.

    Attributes:
        element: element that records a change, such as a line.
        runs: runs of text of the passage.
    """

    element: Element
    runs: tuple[TextRun, ...]

    @cached_property
    def text(self) -> str:
        """Text of all runs."""
        return "".join(run.value for run in self.runs)


@dataclass(frozen=True, eq=False)
class WordLocation:
    """Location of a word in the file: an element, or a span of a passage.

    Attributes:
        element: element of the word, or of the passage.
        passage: passage, if the word has no element.
        start: start of the word in the passage, in characters.
        stop: end of the word in the passage.
        hyphen: element of the hyphen after the word (ALTO).
    """

    element: Element
    passage: Passage | None = None
    start: int = 0
    stop: int = 0
    hyphen: Element | None = None


@dataclass(frozen=True)
class WordEdit:
    """The new content of the element of a word, or of a new element after it.

    Attributes:
        location: location of the word.
        old_text: text before the change.
        text: text of this word after the change.
        confidence: new confidence; None keeps the old one.
        box: new box; None keeps the old one.
        previous_box: box of the new word before this one.
        is_last: whether no other new word follows.
        glyphs: source of the glyphs that move to this word from other words.
    """

    location: WordLocation
    old_text: str
    text: str
    confidence: float | None
    box: Box | None = None
    previous_box: Box | None = None
    is_last: bool = True
    glyphs: bytes = b""

    @property
    def element(self) -> Element:
        """Element of the word."""
        return self.location.element


@dataclass
class MarkupFile(ABC):
    """A parsed file, and the locations of its words in reading order."""

    markup: Markup
    locations: list[WordLocation] = field(default_factory=list)
    not_copied: ClassVar[tuple[str, ...]] = ()  # attributes of a word that a new word after it does not get

    def rewrite(self, words: Sequence[Word], changes: Sequence[WordChange]) -> bytes:
        """Return the file with changes; see ``OcrFile``."""
        edits = Edits(self.markup.source)
        passages: dict[Passage, list[WordChange]] = {}
        for change in changes:
            passage = self.locations[change.start].passage
            if passage is None:
                self._change_words(edits, words[change.start : change.stop], change)
            else:
                passages.setdefault(passage, []).append(change)
        for passage, passage_changes in passages.items():
            self._change_passage(edits, passage, passage_changes)
        self.update_copies(edits, words, changes)
        return self.markup.encode(edits.apply())

    def _change_words(self, edits: Edits, old_words: Sequence[Word], change: WordChange) -> None:
        """Change words that have elements."""
        locations, parts = self.locations[change.start : change.stop], change.text.split()
        old_text = " ".join(word.text for word in old_words)
        if len(parts) in (0, len(locations)) or change.text == old_text:
            texts = parts if len(parts) == len(locations) else [word.text if parts else "" for word in old_words]
            for location, word, text in zip(locations, old_words, texts, strict=True):
                self.set_word(edits, WordEdit(location, word.text, text, change.confidence))
            return
        first = replace(locations[0], hyphen=locations[-1].hyphen)
        boxes = divide_boxes(old_words, parts)
        word_edits = [
            WordEdit(first, old_text, part, change.confidence, box, previous_box, index == len(parts))
            for index, (part, previous_box, box) in enumerate(zip(parts, [None, *boxes], boxes, strict=False), 1)
        ]
        self.regroup(edits, locations, word_edits)

    def regroup(self, edits: Edits, locations: Sequence[WordLocation], word_edits: Sequence[WordEdit]) -> None:
        """Replace words that have elements by a different number of words.

        The element of the first word gets the first text; the other texts get new elements. Glyphs move to the word
        that has their characters now.
        """
        glyphs = self._regroup_glyphs(edits, locations, [edit.text for edit in word_edits])
        first, *others = [replace(edit, glyphs=moved) for edit, moved in zip(word_edits, glyphs, strict=True)]
        self.set_word(edits, first)
        for edit in others:
            edits.replace(edit.element.stop, edit.element.stop, self.new_word(edits, edit))
        for location in locations[1:]:
            self.remove_word(edits, first.location, location)

    def _regroup_glyphs(self, edits: Edits, locations: Sequence[WordLocation], parts: Sequence[str]) -> list[bytes]:
        """Return the glyphs that move to each part, and delete from the first word the glyphs that leave it."""
        glyphs = [(location, glyph) for location in locations for glyph in location.element.elements("Glyph")]
        glyph_texts = [self.glyph_text(glyph) for _, glyph in glyphs]
        new_texts = distribute_text(glyph_texts, "".join(parts)) if glyphs else []
        part_ends = list(accumulate(map(len, parts)))
        moved, offset = [b""] * len(parts), 0
        for (location, glyph), new_text in zip(glyphs, new_texts, strict=True):
            part = min(bisect_right(part_ends, offset), len(parts) - 1)
            offset += len(new_text)
            if part or location is not locations[0]:
                moved[part] += self.markup.source[glyph.start : glyph.stop]
                if location is locations[0]:
                    edits.delete(glyph)
        return moved

    def _change_passage(self, edits: Edits, passage: Passage, changes: Sequence[WordChange]) -> None:
        """Change words of a passage."""
        spans = [(self.locations[change.start].start, self.locations[change.stop - 1].stop) for change in changes]
        text = splice(passage.text, [(*span, change.text) for span, change in zip(spans, changes, strict=True)])
        if text == passage.text:
            return
        new_values = distribute_text([run.value for run in passage.runs], text)
        for run, new_value in zip(passage.runs, new_values, strict=True):
            if new_value != run.value:
                edits.replace(run.start, run.stop, escape(new_value))
        self.record_original(edits, passage.element, passage.text)

    def set_word(self, edits: Edits, edit: WordEdit) -> None:
        """Change a word, and record its original text."""
        self.set_properties(edits, edit)
        if edit.text != edit.old_text or (edit.location.hyphen is not None and not edit.is_last):
            self.set_text(edits, edit)  # the element of the hyphen belongs to the last word
        if edit.text != edit.old_text:
            self.record_original(edits, edit.element, edit.old_text)
        if edit.glyphs:
            edits.insert(edit.element, self.glyph_offset(edit.element), edit.glyphs)

    def copied_attributes(self, element: Element) -> dict[str, str]:
        """Return the attributes of a new word after a word: those of the word, with an unused identifier."""
        return {
            name: self._new_id(value) if name in ("id", "ID") and value else value
            for name, value in element.attributes.items()
            if " " not in name and name not in self.not_copied
        }

    @cached_property
    def _ids(self) -> set[str]:
        """All identifiers of the file."""
        attributes = [element.attributes for element in self.markup.root.walk()]
        return {names[name] for names in attributes for name in ("id", "ID") if name in names}

    def _new_id(self, old_id: str) -> str:
        """Return an unused identifier for a copy of an element."""
        new_id = next(name for number in count(2) if (name := f"{old_id}_{number}") not in self._ids)
        self._ids.add(new_id)
        return new_id

    def read_words(self, elements: Iterable[Element], read_word: Callable[[Element], Word | None]) -> list[Word]:
        """Read the words of elements, without those that have no text, and append their locations."""
        words = [(element, read_word(element)) for element in elements]
        self.locations += [WordLocation(element) for element, word in words if word is not None]
        return [word for _, word in words if word is not None]

    def read_passage(self, passage: Passage, start: int, stop: int, confidence: float | None = None) -> list[Word]:
        """Read the words of a span of a passage, and append their locations."""
        spans = [match.span() for match in WORD.finditer(passage.text, start, stop)]
        self.locations += [WordLocation(passage.element, passage, *span) for span in spans]
        return [Word(passage.text[slice(*span)], confidence) for span in spans]

    def coordinates(self, element: Element, values: Iterable[str | None]) -> list[float]:
        """Parse coordinates of an element; missing values are left out."""
        return [read_coordinate(value, lambda: self.markup.location(element)) for value in values if value is not None]

    def read_page_box(self, page: Element, width: str, height: str) -> Box | None:
        """Return the box of a page, with its upper left corner at 0, from the attributes with its size."""
        sides = self.coordinates(page, [page.attributes.get(width), page.attributes.get(height)])
        return Box(0.0, 0.0, *sides) if len(sides) == 2 else None

    @abstractmethod
    def set_properties(self, edits: Edits, edit: WordEdit) -> None:
        """Set the box and the confidence of a word, each unless it is None."""

    @abstractmethod
    def set_text(self, edits: Edits, edit: WordEdit) -> None:
        """Set the text of a word."""

    @abstractmethod
    def record_original(self, edits: Edits, element: Element, old_text: str) -> None:
        """Record the original text of a changed word or passage, unless the file has an earlier one."""

    @abstractmethod
    def new_word(self, edits: Edits, edit: WordEdit) -> bytes:
        """Return the source of a new word after a word, with the same attributes, and of the space before it."""

    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Remove a word whose text was merged into the word at ``first``."""
        edits.delete(location.element)

    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a glyph."""
        return glyph.text().strip()

    def glyph_offset(self, element: Element) -> int:
        """Return the offset at which glyphs are inserted into a word."""
        return element.content_stop

    def update_copies(self, edits: Edits, words: Sequence[Word], changes: Sequence[WordChange]) -> None:  # noqa: B027
        """Update other places of the file that repeat changed words."""
