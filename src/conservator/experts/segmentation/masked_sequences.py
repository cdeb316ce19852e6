"""Readings: a row of bytes as tokens, with some number of masks in place of each stretch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies import Tokens

COUNTS = 3  # how many numbers of tokens are tried for a stretch
SPREAD = 0.2  # the variance of the number of tokens of a stretch, for each that is expected and one more

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """A row of bytes as tokens, with some number of masks for each stretch.

    Attributes:
        tokens: (N,) of the row; the vocabulary's mask for those that are hidden.
        masks: where the masks of each stretch begin, and how many they are.
    """

    tokens: Ints
    masks: list[tuple[int, int]]


def as_reading(parts: Sequence[Sequence[int]], counts: Sequence[int], mask: int) -> Reading:
    """Put so many masks between the visible parts."""
    tokens, masks = list(parts[0]), []
    for part, count in zip(parts[1:], counts, strict=True):
        masks.append((len(tokens), count))
        tokens += [*[mask] * count, *part]
    return Reading(np.array(tokens, dtype=np.int64), masks)


def window_of(reading: Reading, number: int, longest: int | None) -> tuple[int, int]:
    """The tokens that are read for a stretch: half of what the expert takes at least, so that stretches share them."""
    total = len(reading.tokens)
    if longest is None or total <= longest:
        return 0, total
    first, count = reading.masks[number]
    step = longest // 4
    start = max(0, min((first + count // 2) // step * step - longest // 2 + step // 2, total - longest))
    return start, start + longest


def likely_counts(length: int, size: float, tokens: Tokens, longest: int | None) -> list[int]:
    """The numbers of tokens that are tried for a stretch; none if it is too long for an expert.

    Args:
        length: bytes of the stretch.
        size: bytes of a token, on average.
        tokens: the vocabulary.
        longest: how many tokens the expert reads at once; a stretch may have half as many.
    """
    most = length if longest is None else min(length, longest // 2)
    possible = np.arange(-(-length // tokens.max_length), most + 1)
    likely = np.argsort(-log_prior(possible, length / size), kind="stable")[:COUNTS]
    return sorted(possible[likely].tolist())


def log_prior(counts: Ints, expected: float) -> Floats:
    """How likely each number of tokens is where so many are expected, up to a constant: a normal law."""
    return np.asarray(-((counts - expected) ** 2) / (2 * SPREAD * (1 + expected)), dtype=np.float64)
