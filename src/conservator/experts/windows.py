"""Windows: the stretches of a long sequence that experts read at once, and which of them must be read."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Excerpt
from conservator.errors import ConservatorError

Ints = NDArray[np.int64]
SHORTEST = 8  # positions; a shorter window would have no context around the positions that it predicts


@dataclass(frozen=True)
class Window:
    """A stretch of a sequence that is read at once, and the inner part of it whose positions are predicted."""

    start: int
    stop: int
    inner_start: int
    inner_stop: int


def cut_into_windows(length: int, context: int) -> list[Window]:
    """Cover ``length`` positions by windows of at most ``context``, overlapping by a quarter of it.

    Every position is predicted in exactly one window, at least an eighth of the context away from any end of that
    window that is not an end of the sequence.
    """
    return [Window(*row) for row in window_table(length, context).tolist()]


def window_table(length: int, context: int) -> Ints:
    """(n, 4) the windows of ``cut_into_windows``, as rows of start, stop, inner start and inner stop."""
    if length <= context:
        return np.array([[0, length, 0, length]])
    if context < SHORTEST:
        raise ConservatorError(
            f"the experts read {context} positions at a time, too few for a sequence of {length}; at least {SHORTEST}"
        )
    margin = context // 8
    starts = np.append(np.arange(0, length - context, context - 2 * margin), length - context)
    edges = np.concatenate([[0], starts[1:] + margin, [length]])
    return np.stack([starts, starts + context, edges[:-1], edges[1:]], axis=1)


def windows_of(length: int, context: int, excerpt: Excerpt | None) -> list[Window]:
    """The windows of a sequence. For an excerpt: those windows of the whole sequence that the excerpt contains.

    The windows of an excerpt are given by their places in the excerpt.
    """
    if excerpt is None:
        return cut_into_windows(length, context)
    table = window_table(excerpt.length, context)
    ends = np.searchsorted(excerpt.positions.numpy(), table[:, :2])
    whole = ends[:, 1] - ends[:, 0] == table[:, 1] - table[:, 0]
    moved = table[whole] + (ends[whole, :1] - table[whole, :1])
    return [Window(*row) for row in moved.tolist()]


def excerpt_around(lost: Ints, near: int, margin: int, length: int, context: int) -> Excerpt:
    """The positions that have to be read so that every position within ``near`` of a lost one can be predicted.

    Args:
        lost: (n,) the lost positions, ascending.
        near: how far from the lost positions others are predicted.
        margin: how far around the lost positions the sequence is kept in any case.
        length: the number of positions of the sequence.
        context: how many positions the experts read at once.
    """
    wanted, table = ranges_around(lost, near, length), window_table(length, context)
    # A window is read if a wanted range overlaps its inner part: begins before its end, and ends after its start.
    begun = np.searchsorted(wanted[:, 0], table[:, 3])
    ended = np.searchsorted(wanted[:, 1], table[:, 2], side="right")
    kept = np.concatenate([table[begun > ended, :2], ranges_around(lost, margin, length)])
    kept = kept[kept[:, 0].argsort(kind="stable")]
    positions = [np.arange(start, stop) for start, stop in merge(kept).tolist()]
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
