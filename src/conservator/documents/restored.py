"""What came of a damaged document."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conservator.documents.damaged import Damaged

if TYPE_CHECKING:
    from conservator.decoders.beam import Fill
    from conservator.field.cost import Cost


@dataclass(frozen=True)
class Span:
    """A run of restored bytes.

    Attributes:
        start: the first, as a position of the document (every lost byte is one position).
        stop: the one after the last.
        origin: where it stands in the document that was read: from this byte up to that one.
        left_open: whether any of it was left as it was.
    """

    start: int
    stop: int
    origin: tuple[int, int]
    left_open: bool


@dataclass(frozen=True)
class Restoration:
    """A restored document. L positions: a byte each, visible or lost; m experts.

    Attributes:
        damaged: what was read.
        tokens: (L,) the bytes, the best guess where they are left open.
        confidence: (L,) the probability that each is right; 1 where it was visible.
        left_open: (L,) True where a lost byte was not sure enough, and stays as it was.
        field: (L, m) how much each expert was trusted, rows on the simplex.
        regions: (L,) whose text each position is, as a column of ``field``; -1 where nothing was read.
        experts: the names of the m experts.
        alternatives: for each of ``spans`` its best joint fills, if they were asked for.
        cost: network evaluations and seconds.
    """

    damaged: Damaged
    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    left_open: NDArray[np.bool_]
    field: NDArray[np.float64]
    regions: NDArray[np.int64]
    experts: tuple[str, ...]
    alternatives: tuple[tuple["Fill", ...], ...]
    cost: "Cost"

    @classmethod
    def untouched(cls, damaged: Damaged, experts: tuple[str, ...], cost: "Cost") -> "Restoration":
        """A document in which nothing was lost: nothing was read, and all experts are alike."""
        length = len(damaged.tokens)
        return cls(
            damaged,
            damaged.tokens,
            np.ones(length),
            np.zeros(length, dtype=bool),
            np.full((length, len(experts)), 1 / len(experts)),
            np.full(length, -1),
            experts,
            (),
            cost,
        )

    @cached_property
    def data(self) -> bytes:
        """The document as bytes: valid UTF-8, the visible bytes as they were, marks where it was left open."""
        return self.render(0, len(self.tokens))

    @cached_property
    def text(self) -> str:
        """The document as text."""
        return self.data.decode()

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """(L,) True where a byte was lost or overturned."""
        changed: NDArray[np.bool_] = self.damaged.tokens != self.tokens
        return changed | self.damaged.lost

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The restored runs, in order."""
        origin = self.damaged.origin
        return tuple(
            Span(start, stop, (int(origin[start, 0]), int(origin[stop - 1, 1])), bool(self.left_open[start:stop].any()))
            for start, stop in runs(self.changed)
        )

    @property
    def expected_accuracy(self) -> float | None:
        """The share of the restored bytes that should be right, by their confidence; None where there are none."""
        filled = self.changed & ~self.left_open
        return float(self.confidence[filled].mean()) if filled.any() else None

    def render(self, start: int, stop: int) -> bytes:
        """The bytes of some positions as they are written: marks and gap signs where they were left open."""
        opened = self.left_open[start:stop]
        if not opened.any():
            return self.tokens[start:stop].astype(np.uint8).tobytes()
        parts, done = [], start
        for first, last in runs(opened):
            parts.append(self.tokens[done : start + first].astype(np.uint8).tobytes())
            previous = -1
            for gap in self.damaged.gap_of[start + first : start + last].tolist():
                if gap < 0:
                    parts.append(self.damaged.mark.encode())
                elif gap != previous:
                    parts.append((self.damaged.gap or "").encode())
                previous = gap
            done = start + last
        return b"".join([*parts, self.tokens[done:stop].astype(np.uint8).tobytes()])

    def to_json(self) -> str:
        """The whole record as JSON; the field is sampled."""
        from conservator.report.record import as_json

        return as_json(self)

    def to_html(self, title: str = "Restored document") -> str:
        """The report: one HTML file that needs nothing else."""
        from conservator.report.page import as_page
        from conservator.report.record import as_record

        return as_page(as_record(self), title)

    def _repr_html_(self) -> str:
        """The report in a frame, for notebooks."""
        from conservator.report.page import as_frame
        from conservator.report.record import as_record

        return as_frame(as_record(self))


def runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The maximal stretches of True in ``flags`` (L,), as ranges."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def leave_open(
    tokens: NDArray[np.int64], confidence: NDArray[np.float64], damaged: Damaged, least: float
) -> NDArray[np.bool_]:
    """(L,) which lost bytes are not sure enough to be filled in.

    A character is left open as a whole, and not at all where one of its bytes is visible: half a character cannot be
    written. A gap of unknown length is filled as a whole or not at all.
    """
    lost = damaged.lost
    character = np.cumsum((tokens & 0xC0) != 0x80)
    doubtful = lost & (confidence < least)
    unsure = np.isin(character, character[doubtful])
    unsure |= (damaged.gap_of >= 0) & np.isin(damaged.gap_of, damaged.gap_of[unsure & lost])
    unsure = np.isin(character, character[unsure & lost])
    opened: NDArray[np.bool_] = unsure & ~np.isin(character, character[~lost])
    return opened
