"""Spans of a text that are rescored, each with the right context that its candidates must predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Ints
from conservator.decoders.rescoring.slots import Draft


@dataclass(frozen=True)
class SpanConfig:
    """Sizes of spans and chunks."""

    joint_distance_bytes: int = 3  # bytes: open bytes this close are chosen together [LOG: language-models]
    right_context_bytes: int = 8  # bytes: minimum right context that a candidate predicts [LOG: language-models]
    max_left_bytes: int = 32  # bytes: a span starts at most this far before its first open byte [untuned]
    left_context_bytes: int = 1024  # bytes: left context of the first span of a chunk [untuned]
    max_character_bytes: int = 4  # bytes: of a UTF-8 character [definition]
    chunk_bytes: int = 2048  # bytes: from the first to the last span of a chunk [untuned]


CONFIG = SpanConfig()
CHUNK_BYTES = CONFIG.chunk_bytes


@dataclass(frozen=True)
class Span:
    """A span of text with open bytes, which are to be chosen.

    Attributes:
        start: the start of the span; a token starts there, whatever the open bytes are.
        end: the end of the span; the bytes after the last open one are the right context.
        positions: the positions of the open bytes, ascending.
    """

    start: int
    end: int
    positions: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The position after the last open byte."""
        return self.positions[-1] + 1

    def open_bytes(self, data: bytes) -> bytes:
        """Return the open bytes in a text of the span."""
        return bytes(data[position - self.start] for position in self.positions)

    def insert(self, text: bytes, candidate: bytes) -> bytes:
        """Return the text of the span within ``text``, with a candidate for its open bytes."""
        data = bytearray(text[self.start : self.end])
        for position, byte in zip(self.positions, candidate, strict=True):
            data[position - self.start] = byte
        return bytes(data)


def find_spans(positions: Ints, text: bytes, boundaries: Ints) -> list[Span]:
    """Group the open bytes of a text into spans that begin and end at words, if a word boundary is near.

    Args:
        positions: (n,) the positions of open bytes, ascending.
        text: with the best guess at open bytes.
        boundaries: ascending, the token boundaries that all experts share; the first is 0, the last the text's end.
    """
    words = np.array([boundary for boundary in boundaries.tolist() if begins_word(text, boundary)])
    groups: list[tuple[int, list[int]]] = []
    for position in positions.tolist():
        start = last_before(words, position)
        if position - start > CONFIG.max_left_bytes:
            start = last_before(boundaries, position)
        if groups and (start < groups[-1][1][-1] + 1 or position - groups[-1][1][-1] <= CONFIG.joint_distance_bytes):
            groups[-1][1].append(position)
        else:
            groups.append((start, [position]))
    spans = []
    for start, group in groups:
        spans.append(Span(start, find_end(words, boundaries, group[-1] + 1, len(text)), tuple(group)))
    return spans


def last_before(boundaries: Ints, position: int) -> int:
    """Return the last boundary before a position; the first boundary if there is none.

    The boundary is strictly before the position, because the open byte may belong to the token before it.
    """
    return int(boundaries[max(0, int(np.searchsorted(boundaries, position)) - 1)])


def begins_word(text: bytes, position: int) -> bool:
    """Whether a word, or the space before it, begins at a position; also True at both ends of the text."""
    return position in (0, len(text)) or text[position] in b" \n\t" or text[position - 1] in b"\n\t"


@dataclass(frozen=True)
class ListedSpan:
    """A span of text of which one part has listed candidates.

    Attributes:
        start: the start of the span; a token starts there.
        end: the end of the span.
        first: the start of the part that the candidates replace.
        stop: the end of that part.
        candidates: candidate -> its log-score by the channel and the other experts.
    """

    start: int
    end: int
    first: int
    stop: int
    candidates: Mapping[bytes, float]

    def insert(self, text: bytes, candidate: bytes) -> bytes:
        """Return the text of the span within ``text``, with a candidate."""
        return text[self.start : self.first] + candidate + text[self.stop : self.end]


def find_listed_span(
    first: int, stop: int, candidates: Mapping[bytes, float], text: bytes, boundaries: Ints
) -> ListedSpan:
    """Extend the part of a text that has listed candidates to word boundaries.

    Args:
        first: the start of the part.
        stop: the end of the part.
        candidates: candidate -> its log-score.
        text: the text.
        boundaries: ascending, the token boundaries that all experts share.
    """
    words = np.array([boundary for boundary in boundaries.tolist() if begins_word(text, boundary)])
    begins_with_space = {candidate[:1] for candidate in candidates} | {text[first : first + 1]} == {b" "}
    start = first if begins_with_space and first in words else last_before(words, first)
    if first - start > CONFIG.max_left_bytes:
        start = last_before(boundaries, first)
    return ListedSpan(start, find_end(words, boundaries, stop, len(text)), first, stop, candidates)


def find_end(words: Ints, boundaries: Ints, stop: int, length: int) -> int:
    """Return the end of a span: a word boundary after the right context of ``stop``, or a token boundary."""
    context_end = min(stop + CONFIG.right_context_bytes, length)
    end = int(words[np.searchsorted(words, context_end)])
    if end > context_end + CONFIG.right_context_bytes:
        end = int(boundaries[np.searchsorted(boundaries, context_end)])
    return end


@dataclass(frozen=True)
class ChunkLimits:
    """Sizes of the chunks in which a text is processed.

    Attributes:
        slot_bytes: from the first to the last slot.
        left_bytes: left context of the first slot.
    """

    slot_bytes: int = CONFIG.chunk_bytes
    left_bytes: int = CONFIG.max_left_bytes + CONFIG.left_context_bytes

    @classmethod
    def of(cls, max_bytes: int | None) -> "ChunkLimits":
        """Return the limits of chunks of about ``max_bytes``; None for no limit."""
        overhead = CONFIG.max_left_bytes + 2 * CONFIG.right_context_bytes + 2 * CONFIG.max_character_bytes
        full_size = CONFIG.chunk_bytes + CONFIG.left_context_bytes
        fraction = 1.0 if max_bytes is None else min(1.0, max(0, max_bytes - overhead) / full_size)
        left_bytes = CONFIG.max_left_bytes + int(CONFIG.left_context_bytes * fraction)
        return cls(int(CONFIG.chunk_bytes * fraction), left_bytes)

    def group(self, draft: Draft, slots: Sequence[int]) -> list[list[int]]:
        """Split ascending indices of slots into groups that are processed at once."""
        groups: list[list[int]] = []
        for slot in slots:
            if groups and draft.slots[slot].stop - 1 - draft.slots[groups[-1][0]].start <= self.slot_bytes:
                groups[-1].append(slot)
            else:
                groups.append([slot])
        return groups

    def range_around(self, draft: Draft, slots: Sequence[int]) -> tuple[int, int]:
        """Return the part of the current text that is processed for a group of slots; no character is split."""
        text = draft.text
        begin = next_character_start(text, max(0, int(draft.starts[slots[0]]) - self.left_bytes))
        stop = int(draft.stops[slots[-1]])
        return begin, next_character_start(text, min(len(text), stop + 2 * CONFIG.right_context_bytes))


def next_character_start(text: bytes, position: int) -> int:
    """Return the first position from ``position`` on at which a character begins or the text ends."""
    while position < len(text) and text[position] & 0xC0 == 0x80:
        position += 1
    return position


def longest_run(positions: Sequence[int]) -> int:
    """Return the length of the longest run of adjacent positions; ``positions`` is ascending."""
    return int(np.bincount(np.cumsum(np.diff(positions, prepend=positions[0]) > 1)).max())
