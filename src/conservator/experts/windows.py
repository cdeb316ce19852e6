"""Windows: spans of a long sequence that experts read at once, around the positions to predict."""

from dataclasses import dataclass

import numpy as np
import torch

from conservator.arrays import Ints
from conservator.channels import Excerpt
from conservator.errors import ConservatorError


@dataclass(frozen=True)
class WindowConfig:
    """Sizes of windows; ``margin`` and ``length_multiple`` are reduced for experts with a short context."""

    margin: int = 63  # positions: context on either side of a predicted position [untuned]
    length_multiple: int = 64  # positions: window lengths are multiples of it, so that windows share batches [untuned]
    min_context: int = 8  # positions: a shorter window has no context around the positions to predict [untuned]


WINDOW_CONFIG = WindowConfig()


@dataclass(frozen=True)
class Window:
    """A span of a sequence that is read at once, and its inner span, whose positions are predicted."""

    start: int
    stop: int
    inner_start: int
    inner_stop: int


def margin_of(context: int) -> int:
    """The context on either side of a predicted position, for experts that read ``context`` positions at once."""
    return min(WINDOW_CONFIG.margin, context // 8)


def windows_around(requested: Ints, length: int, context: int, margin: int) -> list[Window]:
    """Find windows of at most ``context`` positions in which the ``requested`` positions are predicted.

    A sequence of at most ``context`` positions is one window. In a longer sequence, every requested position is
    predicted in exactly one window, with at least ``margin`` positions on either side of it, or fewer at the ends of
    the sequence. Requested positions that are farther apart than two margins get separate windows. Window lengths are
    rounded up, so that many are equal and share a batch.

    Args:
        requested: (n,) ascending positions.
        length: length of the sequence.
        context: maximum window length.
        margin: context on either side of a requested position.
    """
    if not len(requested):
        return []
    if length <= context:
        return [Window(0, length, int(requested[0]), int(requested[-1]) + 1)]
    min_context = max(WINDOW_CONFIG.min_context, 2 * margin + 1)
    if context < min_context:
        raise ConservatorError(
            f"experts that split a sequence of {length} positions must read at least {min_context} positions at once, "
            f"got {context}"
        )
    windows = []
    for first, last in group_positions(requested, 2 * margin):
        start, stop = max(first - margin, 0), min(last + margin, length)
        count = 1 if stop - start <= context else -(-(last - first) // (context - 2 * margin))
        inner = first + np.arange(count + 1) * (last - first) // count
        for left, right in zip(inner[:-1].tolist(), inner[1:].tolist(), strict=True):
            begin, end = widen_window(max(left - margin, 0), min(right + margin, length), length, context)
            windows.append(Window(begin, end, left, right))
    return windows


def widen_window(start: int, stop: int, length: int, context: int) -> tuple[int, int]:
    """Round the length of a window up within the sequence and the context: first to the right, then to the left."""
    multiple = length_multiple(context)
    size = min(-(-(stop - start) // multiple) * multiple, context, length)
    stop = max(stop, min(start + size, length))
    return min(start, stop - size), stop


def length_multiple(context: int) -> int:
    """The number that window lengths are multiples of, for experts that read ``context`` positions at once."""
    return min(WINDOW_CONFIG.length_multiple, max(context // 16, 1))


def group_positions(positions: Ints, max_distance: int) -> list[tuple[int, int]]:
    """Group ascending ``positions`` with neighbours at most ``max_distance`` apart; return half-open ranges."""
    breaks = np.flatnonzero(np.diff(positions) > max_distance)
    firsts = positions[np.concatenate([[0], breaks + 1])]
    lasts = positions[np.append(breaks, len(positions) - 1)] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def excerpt_around(lost: Ints, evidence_radius: int, margin: int, length: int, context: int) -> Excerpt:
    """Find the positions needed to predict every position within ``evidence_radius`` of a lost one.

    Args:
        lost: (n,) the lost positions, ascending.
        evidence_radius: maximum distance between a predicted position and the nearest lost one.
        margin: minimum distance around lost positions that the excerpt contains.
        length: length of the sequence.
        context: maximum window length.
    """
    if length <= context:  # the sequence is a single window
        return Excerpt(torch.arange(length), length)
    radius = max(evidence_radius + margin_of(context) + length_multiple(context), margin)
    positions = [np.arange(start, stop) for start, stop in ranges_around(lost, radius, length).tolist()]
    return Excerpt(torch.from_numpy(np.concatenate(positions)), length)


def ranges_around(positions: Ints, radius: int, length: int) -> Ints:
    """(k, 2) the half-open ranges within ``radius`` of any of the ascending ``positions``, ascending and disjoint."""
    return merge_ranges(
        np.stack([np.maximum(positions - radius, 0), np.minimum(positions + radius + 1, length)], axis=1)
    )


def merge_ranges(ranges: Ints) -> Ints:
    """Merge half-open ranges (n, 2) that overlap or touch; they must be sorted by their starts."""
    if not len(ranges):
        return ranges
    max_stop = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > max_stop[:-1]])
    return np.stack([ranges[first, 0], max_stop[np.append(np.flatnonzero(first)[1:] - 1, len(ranges) - 1)]], axis=1)
