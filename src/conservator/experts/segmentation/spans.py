"""Masked spans: the parts of a row in which hidden bytes make the tokenization ambiguous."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Ints
from conservator.experts.segmentation.config import SEGMENTATION_CONFIG
from conservator.numerics import runs
from conservator.vocabularies import BYTES, Tokens

# Classes of bytes. The last entry is the mask: it is in no class.
BLANK = np.array([byte in b" \t\r\n" for byte in range(BYTES.size)] + [2], dtype=np.int8)
ALPHANUMERIC = np.array([chr(byte).isalnum() and byte < 128 for byte in range(BYTES.size)] + [False])
PUNCTUATION = np.array([33 <= byte < 127 and not chr(byte).isalnum() for byte in range(BYTES.size)] + [False])


@dataclass(frozen=True)
class MaskedSpan:
    """A span of bytes, some of them hidden, that starts and ends at token boundaries.

    Attributes:
        start: position of its first byte in the row.
        pattern: its bytes; the mask of ``BYTES`` at hidden bytes.
    """

    start: int
    pattern: tuple[int, ...]

    @property
    def stop(self) -> int:
        """Position after its last byte."""
        return self.start + len(self.pattern)

    @property
    def hidden(self) -> list[int]:
        """Indices of its hidden bytes, relative to its start."""
        return [index for index, byte in enumerate(self.pattern) if byte == BYTES.mask]


def find_masked_spans(row: Ints, tokens: Tokens) -> list[MaskedSpan]:
    """Find the spans of a row: runs of hidden bytes, extended to word boundaries.

    Without a word boundary within ``max_context_bytes``, a span ends there, and a token boundary is assumed.

    Args:
        row: (L,) bytes; the mask of ``BYTES`` at hidden bytes.
        tokens: the vocabulary. If every token is a single byte, a span is a run of hidden bytes.
    """
    hidden = runs(row == BYTES.mask)
    if tokens.max_length > 1:
        boundaries = np.flatnonzero(is_boundary(row))
        hidden = merge_overlapping([extend_to_boundaries(row, boundaries, start, stop) for start, stop in hidden])
    return [MaskedSpan(start, tuple(row[start:stop].tolist())) for start, stop in hidden]


def is_boundary(row: Ints) -> NDArray[np.bool_]:
    """(L + 1,) True where a token starts, or the row ends, whatever the hidden bytes are.

    Most tokenizers have boundaries before the last space in front of a word, after a word, and at the start of a line.
    """
    newline = np.array([ord("\n")])
    current = np.concatenate([row, newline])
    before, after = np.concatenate([newline, row]), np.concatenate([row[1:], newline, newline])
    word = BLANK[after] == 0
    boundary: NDArray[np.bool_] = (
        ((current == ord(" ")) & word)
        | ((BLANK[current] == 1) & (BLANK[before] == 0))
        | (((before == ord("\n")) | (before == ord("\r"))) & (BLANK[current] == 0))
        | (ALPHANUMERIC[before] & PUNCTUATION[current])
    )
    boundary[0] = boundary[-1] = True
    return boundary


def extend_to_boundaries(row: Ints, boundaries: Ints, start: int, stop: int) -> tuple[int, int]:
    """Extend a run of hidden bytes to the next boundaries, by at most ``max_context_bytes`` on either side."""
    max_distance = SEGMENTATION_CONFIG.max_context_bytes
    first = int(boundaries[np.searchsorted(boundaries, start, side="right") - 1])
    last = int(boundaries[np.searchsorted(boundaries, stop)])
    if start - first > max_distance:
        first = next_character(row, start - max_distance)
    if last - stop > max_distance:
        last = next_character(row, stop + max_distance)
    return first, last


def merge_overlapping(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping half-open ranges; they must be sorted by their starts."""
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def next_character(row: Ints, position: int) -> int:
    """Return the first position from ``position`` on that is not inside a UTF-8 character."""
    while position < len(row) and row[position] & 0xC0 == 0x80 and row[position] < BYTES.size:
        position += 1
    return position


def visible_parts(row: Ints, spans: list[MaskedSpan]) -> Iterator[bytes]:
    """Yield the text before the first span, between consecutive spans, and after the last span."""
    start = 0
    for span in spans:
        yield row[start : span.start].astype(np.uint8).tobytes()
        start = span.stop
    yield row[start:].astype(np.uint8).tobytes()
