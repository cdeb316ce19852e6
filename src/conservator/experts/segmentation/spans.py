"""Stretches: where hidden bytes leave open how a text is cut into tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.numerics import runs
from conservator.vocabularies import BYTES, Tokens

FAR = 24  # bytes: a stretch ends at most this far from what is hidden
# What each byte is, for a text's borders; a hidden byte is neither.
BLANK = np.array([byte in b" \t\r\n" for byte in range(BYTES.size)] + [2], dtype=np.int8)
ALPHANUMERIC = np.array([chr(byte).isalnum() and byte < 128 for byte in range(BYTES.size)] + [False])
PUNCTUATION = np.array([33 <= byte < 127 and not chr(byte).isalnum() for byte in range(BYTES.size)] + [False])

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """Bytes that tokens cover in one way or another.

    Attributes:
        start: where it begins in the row.
        pattern: its bytes; the mask of ``BYTES`` where one is hidden.
    """

    start: int
    pattern: tuple[int, ...]

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + len(self.pattern)

    @property
    def hidden(self) -> list[int]:
        """The places in it that are hidden, counted from its start."""
        return [place for place, byte in enumerate(self.pattern) if byte == BYTES.mask]


def find_stretches(row: Ints, tokens: Tokens) -> list[Stretch]:
    """The stretches of a row of bytes: what is hidden, and around it the words that it is part of.

    Where no border of words is near, a stretch ends anyway, and that a token begins there is an assumption.

    Args:
        row: (L,) bytes; the mask of ``BYTES`` where one is hidden.
        tokens: if each stands for one byte, a stretch is just what is hidden.
    """
    hidden = runs(row == BYTES.mask)
    if tokens.max_length > 1:
        borders = np.flatnonzero(is_border(row))
        hidden = merged([around(row, borders, start, stop) for start, stop in hidden])
    return [Stretch(start, tuple(row[start:stop].tolist())) for start, stop in hidden]


def is_border(row: Ints) -> NDArray[np.bool_]:
    """(L + 1,) where a token begins, or the row ends, whatever the hidden bytes are.

    So cut most tokenizers: before the last space in front of a word, after a word, and at the beginning of a line.
    """
    outside = np.array([ord("\n")])
    here = np.concatenate([row, outside])
    before, after = np.concatenate([outside, row]), np.concatenate([row[1:], outside, outside])
    word = BLANK[after] == 0
    found: NDArray[np.bool_] = (
        ((here == ord(" ")) & word)
        | ((BLANK[here] == 1) & (BLANK[before] == 0))
        | (((before == ord("\n")) | (before == ord("\r"))) & (BLANK[here] == 0))
        | (ALPHANUMERIC[before] & PUNCTUATION[here])
    )
    found[0] = found[-1] = True
    return found


def around(row: Ints, borders: Ints, start: int, stop: int) -> tuple[int, int]:
    """The stretch around hidden bytes from ``start`` to ``stop``: to the next borders, or as far as it may reach."""
    first = int(borders[np.searchsorted(borders, start, side="right") - 1])
    last = int(borders[np.searchsorted(borders, stop)])
    if start - first > FAR:
        first = whole(row, start - FAR)
    if last - stop > FAR:
        last = whole(row, stop + FAR)
    return first, last


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges, ascending, with those joined that overlap."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and first < found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def whole(row: Ints, place: int) -> int:
    """The first place from ``place`` on that is not within a character."""
    while place < len(row) and row[place] & 0xC0 == 0x80 and row[place] < BYTES.size:
        place += 1
    return place


def visible_parts(row: Ints, stretches: list[Stretch]) -> Iterator[bytes]:
    """The text before the first stretch, between each two, and after the last."""
    start = 0
    for stretch in stretches:
        yield row[start : stretch.start].astype(np.uint8).tobytes()
        start = stretch.stop
    yield row[start:].astype(np.uint8).tobytes()
