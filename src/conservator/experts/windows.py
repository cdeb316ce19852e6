"""Windows: the stretches of a long sequence that experts read at once, around the positions that they predict."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Excerpt
from conservator.errors import ConservatorError

Ints = NDArray[np.int64]
MARGIN = 63  # positions that are read on either side of a predicted one, if the experts read enough at once
GRAIN = 64  # the lengths of windows are multiples of this, if the experts read enough at once
SHORTEST = 8  # positions; a shorter window would have no context around the positions that it predicts


@dataclass(frozen=True)
class Window:
    """A stretch of a sequence that is read at once, and the inner part of it whose positions are predicted."""

    start: int
    stop: int
    inner_start: int
    inner_stop: int


def margin_of(context: int) -> int:
    """How much text is read on either side of what is predicted, by experts that read ``context`` positions at once."""
    return min(MARGIN, context // 8)


def windows_around(wanted: Ints, length: int, context: int, margin: int) -> list[Window]:
    """The windows of at most ``context`` positions in which the ``wanted`` positions of a sequence are predicted.

    A sequence that can be read at once is one window. In a longer one, every wanted position is predicted in exactly
    one window, with ``margin`` positions on either side of it, unless the sequence ends before. Wanted positions that
    are farther apart than two margins are read in windows of their own. The lengths of windows are rounded up, so that
    many are equal and can be read together.

    Args:
        wanted: (n,) ascending.
        length: of the sequence.
        context: how many positions are read at once.
        margin: as above.
    """
    if not len(wanted):
        return []
    if length <= context:
        return [Window(0, length, int(wanted[0]), int(wanted[-1]) + 1)]
    if context < max(SHORTEST, 2 * margin + 1):
        raise ConservatorError(
            f"the experts read {context} positions at a time, too few for a sequence of {length}; at least "
            f"{max(SHORTEST, 2 * margin + 1)}"
        )
    found = []
    for first, last in groups(wanted, 2 * margin):
        start, stop = max(first - margin, 0), min(last + margin, length)
        count = 1 if stop - start <= context else -(-(last - first) // (context - 2 * margin))
        inner = first + np.arange(count + 1) * (last - first) // count
        for left, right in zip(inner[:-1].tolist(), inner[1:].tolist(), strict=True):
            begin, end = widened(max(left - margin, 0), min(right + margin, length), length, context)
            found.append(Window(begin, end, left, right))
    return found


def widened(start: int, stop: int, length: int, context: int) -> tuple[int, int]:
    """A window whose length is rounded up, as far as the sequence and the context allow: to the right, then left."""
    size = min(-(-(stop - start) // grain(context)) * grain(context), context, length)
    stop = max(stop, min(start + size, length))
    return min(start, stop - size), stop


def grain(context: int) -> int:
    """The lengths of windows are multiples of this."""
    return min(GRAIN, max(context // 16, 1))


def groups(positions: Ints, far: int) -> list[tuple[int, int]]:
    """The half-open ranges of ascending ``positions`` that have no two neighbours farther apart than ``far``."""
    breaks = np.flatnonzero(np.diff(positions) > far)
    firsts = positions[np.concatenate([[0], breaks + 1])]
    lasts = positions[np.append(breaks, len(positions) - 1)] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def excerpt_around(lost: Ints, near: int, margin: int, length: int, context: int) -> Excerpt:
    """The positions that have to be read so that every position within ``near`` of a lost one can be predicted.

    Args:
        lost: (n,) the lost positions, ascending.
        near: how far from the lost positions others are predicted.
        margin: how far around the lost positions the sequence is kept in any case.
        length: the number of positions of the sequence.
        context: how many positions the experts read at once.
    """
    if length <= context:  # it is read at once
        return Excerpt(torch.arange(length), length)
    reach = max(near + margin_of(context) + grain(context), margin)
    positions = [np.arange(start, stop) for start, stop in ranges_around(lost, reach, length).tolist()]
    return Excerpt(torch.from_numpy(np.concatenate(positions)), length)


def ranges_around(positions: Ints, reach: int, length: int) -> Ints:
    """(k, 2) the ranges within ``reach`` of any of the ascending ``positions``, in order and disjoint."""
    return merge(np.stack([np.maximum(positions - reach, 0), np.minimum(positions + reach + 1, length)], axis=1))


def merge(ranges: Ints) -> Ints:
    """Join half-open ranges (n, 2) that overlap or touch; they must be sorted by their starts."""
    if not len(ranges):
        return ranges
    reached = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reached[:-1]])
    return np.stack([ranges[first, 0], reached[np.append(np.flatnonzero(first)[1:] - 1, len(ranges) - 1)]], axis=1)
