"""Regions: the stretches of a text that are written again, each with the text that judges it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOGETHER = 3  # lost bytes that are at most this far apart are chosen together
JUDGES = 8  # bytes after the last lost byte that a fill must explain, at least
BACK = 32  # bytes: a region begins at most this far before its first lost byte
CONTEXT = 1024  # bytes that are read before the first region of a block
CHARACTER = 4  # the most bytes of a character
BLOCK = 2048  # bytes from the first to the last region that are read together

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Region:
    """A stretch of text in which some bytes are open.

    Attributes:
        start: where it begins; tokens begin there, whatever the open bytes are.
        end: where it ends; the bytes after the last open one judge the fills.
        open: the positions of the bytes to be chosen, ascending.
    """

    start: int
    end: int
    open: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The position after the last open byte."""
        return self.open[-1] + 1

    def fill_of(self, data: bytes) -> bytes:
        """The open bytes in a text of the region."""
        return bytes(data[place - self.start] for place in self.open)

    def filled(self, text: bytes, fill: bytes) -> bytes:
        """The text of the region, within ``text``, with its open bytes filled in."""
        data = bytearray(text[self.start : self.end])
        for place, byte in zip(self.open, fill, strict=True):
            data[place - self.start] = byte
        return bytes(data)


def find_regions(places: Ints, text: bytes, borders: Ints) -> list[Region]:
    """Group the open places of a text into regions that begin and end at words, if a word is near.

    Args:
        places: (n,) the open places, ascending.
        text: with the best guess at open places.
        borders: ascending, where tokens begin, in the cut of each expert; the first is 0, the last the text's end.
    """
    words = np.array([border for border in borders.tolist() if begins_word(text, border)])
    groups: list[tuple[int, list[int]]] = []
    for place in places.tolist():
        start = last_before(words, place)
        if place - start > BACK:
            start = last_before(borders, place)
        if groups and (start < groups[-1][1][-1] + 1 or place - groups[-1][1][-1] <= TOGETHER):
            groups[-1][1].append(place)
        else:
            groups.append((start, [place]))
    found = []
    for start, open_places in groups:
        judged = min(open_places[-1] + 1 + JUDGES, len(text))
        end = int(words[np.searchsorted(words, judged)])
        if end > judged + JUDGES:
            end = int(borders[np.searchsorted(borders, judged)])
        found.append(Region(start, end, tuple(open_places)))
    return found


def last_before(borders: Ints, place: int) -> int:
    """The last border before a place, so that the byte before the place is in the region; the first if there is none.

    What stands at the place may belong to the token before it.
    """
    return int(borders[max(0, int(np.searchsorted(borders, place)) - 1)])


def begins_word(text: bytes, place: int) -> bool:
    """Whether a word begins at a place, or the space before it; or the text begins or ends there."""
    return place in (0, len(text)) or text[place] in b" \n\t" or text[place - 1] in b"\n\t"


@dataclass(frozen=True)
class Block:
    """A part of a text that is read at once.

    Attributes:
        begin: where it begins in the text.
        end: where it ends.
        places: the open places in it, counted from ``begin``.
    """

    begin: int
    end: int
    places: Ints


def find_blocks(places: Ints, text: bytes, longest: int | None) -> list[Block]:
    """Cut a text into blocks around its open places; each but the first begins with text that gives it context.

    Args:
        places: (n,) the open places, ascending.
        text: the text; characters are not cut.
        longest: the most bytes of a block, if that is enough for one region; None for any.
    """
    around = BACK + 2 * JUDGES + 2 * CHARACTER
    share = 1.0 if longest is None else min(1.0, max(0, longest - around) / (BLOCK + CONTEXT))
    blocks: list[Block] = []
    left = places
    while len(left):
        here = left[left <= left[0] + int(BLOCK * share)]
        begin = whole_character(text, max(0, int(here[0]) - BACK - int(CONTEXT * share)))
        end = whole_character(text, min(len(text), int(here[-1]) + 1 + 2 * JUDGES))
        blocks.append(Block(begin, end, here - begin))
        left = left[len(here) :]
    return blocks


def whole_character(text: bytes, place: int) -> int:
    """The first place from ``place`` on at which a character begins, or the text ends."""
    while place < len(text) and text[place] & 0xC0 == 0x80:
        place += 1
    return place
