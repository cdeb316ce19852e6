"""Alignment of several readings of one text: the parts in which they agree, and the texts of all where they differ.

A reading is one OCR output, or one damaged copy, of a text. Two readings are aligned with the fewest edits. Long ones
are first divided at anchors, strings that occur once in each, so that the time is linear in their length. Readings
are all aligned to the first one, the base: a segment is a maximal range of it in which some reading differs.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from conservator.documents import LOST_SYMBOL

# characters: with fewer in both texts, they are aligned without anchors; the time is quadratic [safety limit]
EXACT_CHARS = 2**13
ANCHOR_CHARS = (24, 12, 8)  # characters: lengths of anchors, tried in this order [untuned]
MAX_JOINED = 4  # differences: with lost symbols that are joined [untuned]
UNMATCHED = "\ufdd0"  # stands for a lost symbol of an additional reading in its alignment


class Difference(NamedTuple):
    """A range of the first text, and the range of the second one that replaces it; one of them may be empty."""

    start: int
    stop: int
    other_start: int
    other_stop: int


@dataclass(frozen=True)
class Segment:
    """A part of a text that has k readings.

    Attributes:
        start, stop: Range of characters of the base.
        texts: The text of each reading, that of the base first.
    """

    start: int
    stop: int
    texts: tuple[str, ...]


def align_readings(base: str, others: Sequence[str]) -> list[Segment]:
    """Return the parts of the base in which some reading differs, in order; they neither overlap nor touch."""
    # A lost symbol is not evidence that two positions correspond, so it equals none of another reading.
    differences = [join_shifted(base, other.replace(LOST_SYMBOL, UNMATCHED)) for other in others]
    spans: list[tuple[int, int]] = []
    for start, stop in sorted((item.start, item.stop) for items in differences for item in items):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    columns = [list(map_spans(spans, items, other)) for items, other in zip(differences, others, strict=True)]
    segments = (
        Segment(*span, (base[slice(*span)], *(column[number] for column in columns)))
        for number, span in enumerate(spans)
    )
    return [segment for segment in segments if len(set(segment.texts)) > 1]


def map_spans(spans: Sequence[tuple[int, int]], differences: Sequence[Difference], other: str) -> Iterator[str]:
    """Yield the text of another reading in each span of the base; each of its differences is in one span."""
    index, shift = 0, 0
    for start, stop in spans:
        first = start + shift
        while index < len(differences) and differences[index].stop <= stop:
            shift = differences[index].other_stop - differences[index].stop
            index += 1
        yield other[first : stop + shift]


def find_differences(first: str, second: str) -> list[Difference]:
    """Return the differences of two texts, in order; they do not touch."""
    merged: list[Difference] = []
    for item in find_edits(first, second):
        if merged and merged[-1].stop == item.start and merged[-1].other_stop == item.other_start:
            item = Difference(merged[-1].start, item.stop, merged[-1].other_start, item.other_stop)
            merged.pop()
        merged.append(item)
    return merged


def join_shifted(first: str, second: str) -> list[Difference]:
    """Return the differences of two texts; those that differ in lost symbols only are joined.

    ``ab?d`` and ``a?bd``, where ? is lost, can be aligned with an insertion and a deletion, or with two lost symbols.
    """
    joined: list[Difference] = []
    for item in find_differences(first, second):
        for number in range(1, min(MAX_JOINED, len(joined)) + 1):
            before = joined[-number]
            whole = Difference(before.start, item.stop, before.other_start, item.other_stop)
            if is_only_lost(first[whole.start : whole.stop], second[whole.other_start : whole.other_stop]):
                joined[-number:] = [whole]
                break
        else:
            joined.append(item)
    return joined


def is_only_lost(first: str, second: str) -> bool:
    """Return whether two texts of the same length are equal except for lost symbols."""
    return len(first) == len(second) and all(
        a in (b, LOST_SYMBOL) or b == UNMATCHED for a, b in zip(first, second, strict=True)
    )


def find_edits(first: str, second: str) -> Iterator[Difference]:
    """Yield the edits of an alignment of two texts, in order."""
    at = other_at = 0
    for start, other_start, size in [*find_anchors(first, second, 0), (len(first), len(second), 0)]:
        for opcode in Levenshtein.opcodes(first[at:start], second[other_at:other_start]):
            if opcode.tag != "equal":
                yield Difference(
                    at + opcode.src_start,
                    at + opcode.src_end,
                    other_at + opcode.dest_start,
                    other_at + opcode.dest_end,
                )
        at, other_at = start + size, other_start + size


def find_anchors(first: str, second: str, level: int) -> list[tuple[int, int, int]]:
    """Return ``(start, other_start, size)`` of strings in both texts, in order; none if the texts are short."""
    if max(len(first), len(second)) <= EXACT_CHARS or level == len(ANCHOR_CHARS):
        return []
    size = ANCHOR_CHARS[level]
    positions, other_positions = unique_strings(first, size), unique_strings(second, size)
    pairs = [(start, other_positions[text]) for text, start in positions.items() if text in other_positions]
    anchors: list[tuple[int, int, int]] = []
    at = other_at = 0
    for start, other_start in [*longest_chain(sorted(pairs)), (len(first), len(second))]:
        if start < at or other_start < other_at:  # overlaps the anchor before it
            continue
        inner = find_anchors(first[at:start], second[other_at:other_start], level + 1)
        anchors += [(at + begin, other_at + other_begin, length) for begin, other_begin, length in inner]
        if start < len(first) and other_start < len(second):
            anchors.append((start, other_start, size))
        at, other_at = start + size, other_start + size
    return anchors


def unique_strings(text: str, size: int) -> dict[str, int]:
    """Return the strings of ``size`` characters that occur once in a text, with their positions."""
    positions: dict[str, int] = {}
    for start in range(len(text) - size + 1):
        string = text[start : start + size]
        positions[string] = -1 if string in positions else start
    return {string: start for string, start in positions.items() if start >= 0}


def longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, sorted by the first number, in which the second one increases."""
    ends: list[int] = []  # smallest second number at the end of a chain of each length
    last: list[int] = []  # index of its pair
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(ends, value)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        last[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
