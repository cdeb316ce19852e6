"""The text of an OCR file, and the file with corrected words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Protocol

from conservator.documents import splice
from conservator.errors import ConservatorError
from conservator.pages.model import Line, Page, Word, WordChange

# Characters that XML 1.0 does not allow.
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class OcrFile(Protocol):
    """The file of a transcript, in one of the formats."""

    def rewrite(self, words: Sequence[Word], changes: Sequence[WordChange]) -> bytes:
        """Return the file with changes, which must be valid, sorted and disjoint."""
        ...


@dataclass(frozen=True)
class Transcript:
    """The content of an OCR file.

    Attributes:
        format: ``hOCR``, ``ALTO``, ``PAGE`` or ``TSV``.
        engine: OCR engine, if the file names one.
        unit: unit of all boxes: ``pixel``, ``mm10`` (tenths of a millimetre) or ``inch1200``.
        pages: pages.
        data: bytes of the file.
        file: parsed file, which writes itself with changed words.
    """

    format: str
    engine: str | None
    unit: str
    pages: tuple[Page, ...]
    data: bytes = field(repr=False)
    file: OcrFile = field(repr=False, compare=False)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Lines of all pages."""
        return tuple(line for page in self.pages for line in page.lines)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Words of all lines; a WordChange refers to their indices."""
        return tuple(word for line in self.lines for word in line.words)

    @property
    def text(self) -> str:
        """Plain text: a space between words, a newline after a line, an empty line between paragraphs and pages."""
        return self._text_and_spans[0]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Span of each word in ``text``: ``text[start:stop]`` is ``word.text``."""
        return self._text_and_spans[1]

    @cached_property
    def _text_and_spans(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Plain text, and the spans of its words."""
        parts: list[str] = []
        spans = []
        offset, previous_block = 0, None
        for page_index, page in enumerate(self.pages):
            for line in page.lines:
                block = (page_index, line.block)
                if previous_block not in (None, block):
                    parts.append("\n")
                    offset += 1
                previous_block = block
                for word in line.words:
                    spans.append((offset, offset + len(word.text)))
                    parts += [word.text, " "]
                    offset += len(word.text) + 1
                parts[-1] = "\n"
        return "".join(parts), tuple(spans)

    @cached_property
    def _first_words(self) -> list[int]:
        """Index of the first word of each line, and the number of words."""
        return list(accumulate((len(line.words) for line in self.lines), initial=0))

    def words_in(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of words that overlap or touch a span of characters of ``text``."""
        first = bisect_left(self.spans, start, key=lambda span: span[1])
        return first, max(first, bisect_right(self.spans, stop, key=lambda span: span[0]))

    def line_of(self, word: int) -> int:
        """Return the index of the line of a word."""
        return bisect_right(self._first_words, word) - 1

    def word_changes(self, changes: Iterable[tuple[int, int, str, float]]) -> list[WordChange]:
        """Convert changes of characters to changes of words.

        The confidence of a changed word is the product of the probabilities of the changes in it.

        Args:
            changes: ``(start, stop, text, probability)`` with spans of characters of ``text``, sorted and disjoint;
                each span must be within a line.
        """
        groups: list[tuple[int, int, list[tuple[int, int, str, float]]]] = []
        for change in changes:
            first, last = self.words_in(*change[:2])
            if first == last:
                raise ConservatorError(f"the span {change[0]} to {change[1]} does not touch a word; changes need one")
            if groups and first < groups[-1][1]:
                first, last, members = groups[-1][0], max(last, groups[-1][1]), groups.pop()[2]
                groups.append((first, last, [*members, change]))
            else:
                groups.append((first, last, [change]))
        word_changes = []
        for first, last, members in groups:
            begin, end = self.spans[first][0], self.spans[last - 1][1]
            replacements = [(max(0, start - begin), min(stop, end) - begin, text) for start, stop, text, _ in members]
            text = splice(self.text[begin:end], replacements)
            word_changes.append(WordChange(first, last, text, prod(change[3] for change in members)))
        return word_changes

    def apply_changes(self, changes: Iterable[WordChange]) -> bytes:
        """Return the bytes of the file with changed words and their original texts.

        Everything else in the file stays the same. Without changes, the result is ``data``.
        """
        ordered = sorted(changes, key=lambda change: (change.start, change.stop))
        checked = [self._check(change) for change in ordered]
        for change, following in pairwise(checked):
            if following.start < change.stop:
                raise ConservatorError(f"word {following.start} is changed twice; give one change for each word")
        effective = [change for change in checked if self._has_effect(change)]
        return self.file.rewrite(self.words, effective) if effective else self.data

    def _check(self, change: WordChange) -> WordChange:
        """Raise an error for an invalid change; return the change with single spaces between its words."""
        if not 0 <= change.start < change.stop <= len(self.words):
            raise ConservatorError(
                f"a change must be within the {len(self.words)} words of the transcript, "
                f"got words {change.start} to {change.stop}"
            )
        line = self.line_of(change.start)
        if change.stop > self._first_words[line + 1]:
            raise ConservatorError(
                f"words {change.start} to {change.stop} are on several lines; give a separate change for each line"
            )
        forbidden = NOT_IN_XML.search(change.text)
        if forbidden:
            raise ConservatorError(f"the text of a change contains {forbidden[0]!r}, which XML does not allow")
        if change.confidence is not None and not 0 <= change.confidence <= 1:
            raise ConservatorError(f"the confidence of a change must be between 0 and 1, got {change.confidence}")
        return WordChange(change.start, change.stop, " ".join(change.text.split()), change.confidence)

    def _has_effect(self, change: WordChange) -> bool:
        """Return whether a change alters the text or sets a confidence."""
        old_text = " ".join(word.text for word in self.words[change.start : change.stop])
        return change.confidence is not None or change.text != old_text
