"""What hOCR, ALTO and PAGE have in common when words of a file are changed."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from conservator.pages.elements import Edits, Element, Text, escape
from conservator.pages.markup import Markup
from conservator.pages.model import Box, Change, Word
from conservator.pages.numbers import divide
from conservator.pages.word_alignment import TOKEN, spread


@dataclass(frozen=True, eq=False)
class Passage:
    """A text of several words in one element, for files that know no words.

    Attributes:
        element: the element that is said to be changed, such as a line.
        runs: the runs of text that make up the passage.
    """

    element: Element
    runs: tuple[Text, ...]

    @cached_property
    def text(self) -> str:
        """The text of all runs."""
        return "".join(run.value for run in self.runs)


@dataclass(frozen=True, eq=False)
class Place:
    """Where a word stands: an element of its own, or a stretch of a passage.

    Attributes:
        element: the element of the word, or of the passage.
        passage: the passage, if the word has no element.
        start: of the word in the passage.
        stop: its end there.
        hyphen: the element of the hyphen after it (ALTO).
    """

    element: Element
    passage: Passage | None = None
    start: int = 0
    stop: int = 0
    hyphen: Element | None = None


@dataclass
class MarkupFile(ABC):
    """A file of markup, whose words stand at places."""

    markup: Markup
    places: list[Place] = field(default_factory=list)

    def rewrite(self, words: Sequence[Word], changes: Sequence[Change]) -> bytes:
        """The file with changes; see ``File``."""
        edits = Edits(self.markup.source)
        passages: dict[Passage, list[Change]] = {}
        for change in changes:
            passage = self.places[change.start].passage
            if passage is None:
                self._change_words(edits, words, change)
            else:
                passages.setdefault(passage, []).append(change)
        for passage, made in passages.items():
            self._change_passage(edits, passage, made)
        self.follow(edits, words, changes)
        return self.markup.encode(edits.apply())

    def _change_words(self, edits: Edits, words: Sequence[Word], change: Change) -> None:
        """Change words that have elements."""
        places, old = self.places[change.start : change.stop], words[change.start : change.stop]
        parts = change.text.split()
        if len(parts) in (0, len(places)) or change.text == " ".join(word.text for word in old):
            texts = parts if len(parts) == len(places) else [word.text if parts else "" for word in old]
            for place, word, text in zip(places, old, texts, strict=True):
                self.set_word(edits, place, word.text, text, None, change.confidence)
            return
        before = " ".join(word.text for word in old)
        self.regroup(edits, places, before, parts, divide(old, parts), change.confidence)

    def regroup(
        self,
        edits: Edits,
        places: Sequence[Place],
        before: str,
        parts: Sequence[str],
        boxes: Sequence[Box | None],
        confidence: float | None,
    ) -> None:
        """Make other words of words that have elements: the first becomes the first, and the others are new.

        Glyphs go to the word that has their characters now.
        """
        first = replace(places[0], hyphen=places[-1].hyphen)
        glyphs = self._regrouped_glyphs(edits, places, parts)
        self.set_word(edits, first, before, parts[0], boxes[0], confidence, split=len(parts) > 1, glyphs=glyphs[0])
        for number, part in enumerate(parts[1:], 1):
            gap, last = (boxes[number - 1], boxes[number]), number == len(parts) - 1
            name = self.new_name(first.element)
            self.add_word(edits, first, part, gap, name, confidence, last=last, glyphs=glyphs[number])
        for place in places[1:]:
            self.remove_word(edits, first, place)

    def _regrouped_glyphs(self, edits: Edits, places: Sequence[Place], parts: Sequence[str]) -> list[bytes]:
        """The glyphs that come to each part from elsewhere; those that leave the first word are taken out of it."""
        elements = [(place, glyph) for place in places for glyph in place.element.elements("Glyph")]
        pieces = spread([self.glyph_text(glyph) for _, glyph in elements], "".join(parts)) if elements else []
        ends = list(accumulate(map(len, parts)))
        made, at = [b""] * len(parts), 0
        for (place, glyph), piece in zip(elements, pieces, strict=True):
            part = min(bisect_right(ends, at), len(parts) - 1)
            at += len(piece)
            if part or place is not places[0]:
                made[part] += self.markup.source[glyph.start : glyph.stop]
                if place is places[0]:
                    edits.delete(glyph)
        return made

    def _change_passage(self, edits: Edits, passage: Passage, changes: Sequence[Change]) -> None:
        """Change words of a passage."""
        made, at = [], 0
        for change in changes:
            first, last = self.places[change.start], self.places[change.stop - 1]
            made += [passage.text[at : first.start], change.text]
            at = last.stop
        text = "".join([*made, passage.text[at:]])
        if text == passage.text:
            return
        pieces = spread([run.value for run in passage.runs], text)
        for run, piece in zip(passage.runs, pieces, strict=True):
            if piece != run.value:
                edits.replace(run.start, run.stop, escape(piece))
        self.mark_passage(edits, passage)

    @cached_property
    def _names(self) -> set[str]:
        """All identifiers of the file."""
        return {
            value for one in self.markup.root.walk() for key, value in one.attributes.items() if key in ("id", "ID")
        }

    def new_name(self, element: Element) -> str | None:
        """An identifier for a copy of an element that has one."""
        name = element.attributes.get("id") or element.attributes.get("ID")
        if not name:
            return None
        number = 2
        while f"{name}_{number}" in self._names:
            number += 1
        self._names.add(f"{name}_{number}")
        return f"{name}_{number}"

    def add_passage(self, passage: Passage, found: Sequence[tuple[int, int]]) -> None:
        """Note the places of the words of a passage."""
        self.places += [Place(passage.element, passage, *span) for span in found]

    @abstractmethod
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
        """Give a word another text, and ``box`` and ``confidence`` unless they are None; ``before`` stands beside it.

        If the word is ``split``, others with the rest of the text are added. ``glyphs`` come from other words.
        """

    @abstractmethod
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
        """Add a word like the one at ``place``, after it. ``gap`` is the box before it, and its own."""

    @abstractmethod
    def remove_word(self, edits: Edits, first: Place, place: Place) -> None:
        """Take out a word that has become a part of the ``first``."""

    @abstractmethod
    def glyph_text(self, glyph: Element) -> str:
        """The text of a glyph."""

    @abstractmethod
    def mark_passage(self, edits: Edits, passage: Passage) -> None:
        """Put the text of a passage beside its change."""

    def follow(self, edits: Edits, words: Sequence[Word], changes: Sequence[Change]) -> None:  # noqa: B027
        """Change whatever else in the file repeats words that were changed."""


def find_tokens(text: str) -> list[tuple[int, int]]:
    """Where the words of a text stand."""
    return [found.span() for found in TOKEN.finditer(text)]


def set_run(edits: Edits, run: Text, text: str) -> None:
    """Give a run another text, and keep the blanks around it."""
    lead, trail = blanks(run)
    edits.replace(run.start, run.stop, lead + escape(text) + trail)


def blanks(run: Text) -> tuple[bytes, bytes]:
    """The blanks before and after the text of a run."""
    text = run.value
    return escape(text[: len(text) - len(text.lstrip())]), escape(text[len(text.rstrip()) :] if text.strip() else "")
