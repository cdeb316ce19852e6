"""Base class of hOCR, ALTO and PAGE files whose words can be changed."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from conservator.pages.formats.numbers import divide_boxes
from conservator.pages.formats.word_alignment import WORD, distribute_text
from conservator.pages.markup import Markup
from conservator.pages.markup.elements import Edits, Element, TextRun, escape
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


@dataclass
class MarkupFile(ABC):
    """A parsed file, and the locations of its words in reading order."""

    markup: Markup
    locations: list[WordLocation] = field(default_factory=list)

    def rewrite(self, words: Sequence[Word], changes: Sequence[WordChange]) -> bytes:
        """Return the file with changes; see ``OcrFile``."""
        edits = Edits(self.markup.source)
        passages: dict[Passage, list[WordChange]] = {}
        for change in changes:
            passage = self.locations[change.start].passage
            if passage is None:
                self._change_words(edits, words, change)
            else:
                passages.setdefault(passage, []).append(change)
        for passage, passage_changes in passages.items():
            self._change_passage(edits, passage, passage_changes)
        self.update_copies(edits, words, changes)
        return self.markup.encode(edits.apply())

    def _change_words(self, edits: Edits, words: Sequence[Word], change: WordChange) -> None:
        """Change words that have elements."""
        locations, old_words = self.locations[change.start : change.stop], words[change.start : change.stop]
        parts = change.text.split()
        if len(parts) in (0, len(locations)) or change.text == " ".join(word.text for word in old_words):
            texts = parts if len(parts) == len(locations) else [word.text if parts else "" for word in old_words]
            for location, word, text in zip(locations, old_words, texts, strict=True):
                self.set_word(edits, location, word.text, text, None, change.confidence)
            return
        old_text = " ".join(word.text for word in old_words)
        self.regroup(edits, locations, old_text, parts, divide_boxes(old_words, parts), change.confidence)

    def regroup(
        self,
        edits: Edits,
        locations: Sequence[WordLocation],
        old_text: str,
        parts: Sequence[str],
        boxes: Sequence[Box | None],
        confidence: float | None,
    ) -> None:
        """Replace words that have elements by a different number of words.

        The element of the first word gets the first part; the other parts get new elements. Glyphs move to the word
        that has their characters now.
        """
        first = replace(locations[0], hyphen=locations[-1].hyphen)
        glyphs = self._regroup_glyphs(edits, locations, parts)
        self.set_word(edits, first, old_text, parts[0], boxes[0], confidence, split=len(parts) > 1, glyphs=glyphs[0])
        for index, part in enumerate(parts[1:], 1):
            is_last = index == len(parts) - 1
            new_id = self.new_id(first.element)
            previous_box, box = boxes[index - 1], boxes[index]
            self.add_word(
                edits, first, part, previous_box, box, new_id, confidence, is_last=is_last, glyphs=glyphs[index]
            )
        for location in locations[1:]:
            self.remove_word(edits, first, location)

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
        parts, offset = [], 0
        for change in changes:
            first, last = self.locations[change.start], self.locations[change.stop - 1]
            parts += [passage.text[offset : first.start], change.text]
            offset = last.stop
        text = "".join([*parts, passage.text[offset:]])
        if text == passage.text:
            return
        new_values = distribute_text([run.value for run in passage.runs], text)
        for run, new_value in zip(passage.runs, new_values, strict=True):
            if new_value != run.value:
                edits.replace(run.start, run.stop, escape(new_value))
        self.record_original(edits, passage)

    @cached_property
    def _ids(self) -> set[str]:
        """All identifiers of the file."""
        return {
            value
            for element in self.markup.root.walk()
            for name, value in element.attributes.items()
            if name in ("id", "ID")
        }

    def new_id(self, element: Element) -> str | None:
        """Return an unused identifier for a copy of an element; None if the element has none."""
        old_id = element.attributes.get("id") or element.attributes.get("ID")
        if not old_id:
            return None
        number = 2
        while f"{old_id}_{number}" in self._ids:
            number += 1
        self._ids.add(f"{old_id}_{number}")
        return f"{old_id}_{number}"

    def add_passage(self, passage: Passage, spans: Sequence[tuple[int, int]]) -> None:
        """Append the locations of the words of a passage."""
        self.locations += [WordLocation(passage.element, passage, *span) for span in spans]

    @abstractmethod
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
        """Change the text of a word, and record the original text.

        Args:
            edits: receives the edits.
            location: location of the word.
            old_text: text before the change.
            text: text after the change.
            box: new box; None keeps the old one.
            confidence: new confidence; None keeps the old one.
            split: whether ``add_word`` adds words with the rest of the text.
            glyphs: source of glyphs that move here from other words.
        """

    @abstractmethod
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
        """Add a word after the word at ``location``, with the same attributes.

        Args:
            edits: receives the edits.
            location: location of the word before it.
            text: text of the new word.
            previous_box: box of the word before it.
            box: box of the new word.
            new_id: identifier of the new word; None for no identifier.
            confidence: confidence of the new word; None does not set it.
            is_last: whether this is the last word of the change.
            glyphs: source of the glyphs of the new word.
        """

    @abstractmethod
    def remove_word(self, edits: Edits, first: WordLocation, location: WordLocation) -> None:
        """Remove a word whose text was merged into the word at ``first``."""

    @abstractmethod
    def glyph_text(self, glyph: Element) -> str:
        """Return the text of a glyph."""

    @abstractmethod
    def record_original(self, edits: Edits, passage: Passage) -> None:
        """Record the original text of a changed passage."""

    def update_copies(  # noqa: B027
        self, edits: Edits, words: Sequence[Word], changes: Sequence[WordChange]
    ) -> None:
        """Update other places of the file that repeat changed words."""


def find_words(text: str) -> list[tuple[int, int]]:
    """Return the spans of the words of a text."""
    return [match.span() for match in WORD.finditer(text)]


def set_run_text(edits: Edits, run: TextRun, text: str) -> None:
    """Replace the text of a run, and keep the whitespace around it."""
    leading, trailing = surrounding_whitespace(run)
    edits.replace(run.start, run.stop, leading + escape(text) + trailing)


def surrounding_whitespace(run: TextRun) -> tuple[bytes, bytes]:
    """Return the whitespace before and after the text of a run."""
    text = run.value
    return escape(text[: len(text) - len(text.lstrip())]), escape(text[len(text.rstrip()) :] if text.strip() else "")
