"""Slots: the parts of a text that are to be chosen, either one open byte or a list of candidate texts."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conservator.arrays import Floats, Ints


@dataclass(frozen=True)
class Slot:
    """A part of a text that is to be chosen: an open byte, or a list of candidate texts.

    Attributes:
        start: Start of the slot in the text.
        stop: End of the slot; of an open byte ``start + 1``.
        scores: Log-scores by the channel and the other experts: (256,) of an open byte, otherwise those of the
            candidates, which are valid UTF-8.
    """

    start: int
    stop: int
    scores: Floats | Mapping[bytes, float]

    @property
    def is_open_byte(self) -> bool:
        """Whether any byte may be chosen, instead of a listed candidate."""
        return isinstance(self.scores, np.ndarray)

    @property
    def potential(self) -> Floats:
        """(256,) log-scores of an open byte."""
        return np.asarray(self.scores)

    @property
    def candidates(self) -> Mapping[bytes, float]:
        """Listed candidates, and their log-scores."""
        return self.scores if isinstance(self.scores, Mapping) else {}


def open_bytes(positions: Ints, potentials: Floats) -> list[Slot]:
    """Return the slots of open bytes at ascending ``positions`` (n,), with their log-scores (n, 256)."""
    return [
        Slot(position, position + 1, potential)
        for position, potential in zip(positions.tolist(), potentials, strict=True)
    ]


@dataclass(frozen=True)
class Draft:
    """A text with n slots, and the current text of each slot.

    Attributes:
        original: The text.
        slots: Slots in the original text, in order and disjoint.
        current: Current text of each slot.
    """

    original: bytes
    slots: Sequence[Slot]
    current: tuple[bytes, ...]

    @classmethod
    def of(cls, text: bytes, slots: Sequence[Slot]) -> "Draft":
        """Return a draft in which every slot has its original text."""
        return cls(text, slots, tuple(text[slot.start : slot.stop] for slot in slots))

    @cached_property
    def starts(self) -> Ints:
        """(n,) start of each slot in the current text."""
        growth = [len(data) - slot.stop + slot.start for slot, data in zip(self.slots, self.current, strict=True)]
        shift = np.cumsum([0, *growth])[:-1]
        return np.array([slot.start for slot in self.slots], dtype=np.int64) + shift.astype(np.int64)

    @cached_property
    def stops(self) -> Ints:
        """(n,) end of each slot in the current text."""
        return self.starts + np.array([len(data) for data in self.current], dtype=np.int64)

    @cached_property
    def text(self) -> bytes:
        """The current text."""
        parts, done = [], 0
        for slot, data in zip(self.slots, self.current, strict=True):
            parts += [self.original[done : slot.start], data]
            done = slot.stop
        return b"".join([*parts, self.original[done:]])

    def rows(self, values: Floats) -> Floats:
        """Return the rows of the current text, given those of the original text; new bytes get that of their slot."""
        if all(len(data) == slot.stop - slot.start for slot, data in zip(self.slots, self.current, strict=True)):
            return values
        parts, done = [], 0
        for slot, data in zip(self.slots, self.current, strict=True):
            parts += [np.arange(done, slot.start), np.full(len(data), min(slot.start, len(values) - 1))]
            done = slot.stop
        rows: Floats = values[np.concatenate([*parts, np.arange(done, len(self.original))])]
        return rows

    def replace(self, choices: Mapping[int, bytes]) -> "Draft":
        """Return the draft with other texts of some slots."""
        current = tuple(choices.get(index, data) for index, data in enumerate(self.current))
        return Draft(self.original, self.slots, current)

    def within(self, start: int, stop: int) -> range:
        """Return the slots that start in a range of the current text."""
        starts = self.starts.tolist()
        return range(bisect_left(starts, start), bisect_left(starts, stop))
