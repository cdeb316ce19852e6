"""A file that a reader of pages wrote: its words as plain text, and the file again with corrected words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Protocol

from conservator.errors import ConservatorError
from conservator.pages.model import Change, Line, Page, Word
from conservator.pages.word_alignment import match_words

# What may stand in no XML 1.0.
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class File(Protocol):
    """The file behind a transcript, of one format."""

    def rewrite(self, words: Sequence[Word], changes: Sequence[Change]) -> bytes:
        """The file with changes, which are checked, in order and apart from each other."""
        ...


@dataclass(frozen=True)
class Transcript:
    """What a reader of pages wrote, by an OCR engine mostly.

    Attributes:
        format: ``hOCR``, ``ALTO``, ``PAGE`` or ``TSV``.
        version: of the format, if the file names one.
        engine: the program that read the pages, if the file names it.
        unit: of all boxes: ``pixel``, ``mm10`` (tenths of a millimetre) or ``inch1200``.
        pages: its pages.
        data: the bytes of the file.
        file: the file, which can write itself with other words.
    """

    format: str
    version: str | None
    engine: str | None
    unit: str
    pages: tuple[Page, ...]
    data: bytes = field(repr=False)
    file: File = field(repr=False, compare=False)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines of all pages."""
        return tuple(line for page in self.pages for line in page.lines)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words of all lines; a Change counts them from 0."""
        return tuple(word for line in self.lines for word in line.words)

    @property
    def text(self) -> str:
        """The plain text: a space between words, a newline after a line, an empty line between paragraphs and pages."""
        return self._told[0]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where in ``text`` each word stands: ``text[start:stop]`` is ``word.text``."""
        return self._told[1]

    @cached_property
    def _told(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The plain text, and where its words stand."""
        pieces: list[str] = []
        spans = []
        at, block = 0, None
        for number, page in enumerate(self.pages):
            for line in page.lines:
                if block not in (None, (number, line.block)):
                    pieces.append("\n")
                    at += 1
                block = (number, line.block)
                for word in line.words:
                    spans.append((at, at + len(word.text)))
                    pieces += [word.text, " "]
                    at += len(word.text) + 1
                pieces[-1] = "\n"
        return "".join(pieces), tuple(spans)

    @cached_property
    def _firsts(self) -> list[int]:
        """The number of the first word of each line."""
        firsts = [0]
        for line in self.lines:
            firsts.append(firsts[-1] + len(line.words))
        return firsts

    def word_at(self, character: int) -> int | None:
        """The number of the word in which a character of ``text`` stands; None between words."""
        index = bisect_right(self.spans, (character, len(self.text))) - 1
        return index if index >= 0 and self.spans[index][0] <= character < self.spans[index][1] else None

    def words_in(self, start: int, stop: int) -> tuple[int, int]:
        """The half-open range of words that characters of ``text`` are in or stand beside, such as a space."""
        first = bisect_left(self.spans, start, key=lambda span: span[1])
        return first, max(first, bisect_right(self.spans, stop, key=lambda span: span[0]))

    def line_of(self, word: int) -> int:
        """The number of the line that a word stands in, from 0."""
        return bisect_right(self._firsts, word) - 1

    def changes_at(self, stretches: Iterable[tuple[int, int, str, float]]) -> list[Change]:
        """The changes of words that changes of characters make; the confidence of a word is that of all in it.

        Args:
            stretches: ``(start, stop, text, probability)`` with half-open ranges of characters of ``text``, in order
                and apart from each other; each within a line.
        """
        groups: list[tuple[int, int, list[tuple[int, int, str, float]]]] = []
        for stretch in stretches:
            first, last = self.words_in(*stretch[:2])
            if first == last:
                raise ConservatorError(f"a change of characters {stretch[0]} to {stretch[1]}, beside which is no word")
            if groups and first < groups[-1][1]:
                first, last, inside = groups[-1][0], max(last, groups[-1][1]), groups.pop()[2]
                groups.append((first, last, [*inside, stretch]))
            else:
                groups.append((first, last, [stretch]))
        made = []
        for first, last, inside in groups:
            at, parts = self.spans[first][0], []
            for start, stop, text, _ in inside:
                parts += [self.text[at:start], text]
                at = stop
            parts.append(self.text[at : self.spans[last - 1][1]])
            made.append(Change(first, last, "".join(parts), prod(one[3] for one in inside)))
        return made

    def changes(self, corrected: str, confidence: float | None = None) -> list[Change]:
        """The changes that make ``text`` a corrected text with the same lines.

        A word that is gone becomes empty; a word that is new shares the box of the one before it.

        Args:
            corrected: ``text`` after correction; every line must still be there, also one that is empty now.
            confidence: of every change.
        """
        old, new = self.text.removesuffix("\n").split("\n"), corrected.removesuffix("\n").split("\n")
        if len(old) != len(new):
            raise ConservatorError(
                f"the corrected text has {len(new)} lines, the transcript {len(old)}; lines must be kept"
            )
        made, number = [], 0
        for row, (before, after) in enumerate(zip(old, new, strict=True), 1):
            if not before:
                if after.strip():
                    raise ConservatorError(f"line {row} of the corrected text is not empty, as it is in the transcript")
                continue
            first, words = self._firsts[number], self.lines[number].words
            number += 1
            if before != after:
                found = match_words([word.text for word in words], after.split())
                made += [Change(first + start, first + stop, text, confidence) for start, stop, text in found]
        return made

    def with_text(self, changes: Iterable[Change]) -> bytes:
        """The bytes of the file with changed words; all else in it stays, and the original stands beside each change.

        Without a change these are the bytes that were read.
        """
        checked = [self._checked(change) for change in sorted(changes, key=lambda one: (one.start, one.stop))]
        for one, other in pairwise(checked):
            if other.start < one.stop:
                raise ConservatorError(f"two changes of word {other.start}; a word can be changed once")
        needed = [change for change in checked if self._alters(change)]
        return self.file.rewrite(self.words, needed) if needed else self.data

    def _checked(self, change: Change) -> Change:
        """A change that can be made, with single spaces between its words."""
        if not 0 <= change.start < change.stop <= len(self.words):
            raise ConservatorError(
                f"a change of words {change.start} to {change.stop}; the transcript has {len(self.words)} words"
            )
        line = self.line_of(change.start)
        if change.stop > self._firsts[line + 1]:
            raise ConservatorError(
                f"a change of words {change.start} to {change.stop}, which are on several lines; change each line apart"
            )
        found = UNWRITABLE.search(change.text)
        if found:
            raise ConservatorError(f"the character {found[0]!r} has no place in such a file")
        if change.confidence is not None and not 0 <= change.confidence <= 1:
            raise ConservatorError(f"the confidence {change.confidence}; one from 0 to 1 is accepted")
        return Change(change.start, change.stop, " ".join(change.text.split()), change.confidence)

    def _alters(self, change: Change) -> bool:
        """Whether anything is different after a change."""
        before = " ".join(word.text for word in self.words[change.start : change.stop])
        return change.confidence is not None or change.text != before
