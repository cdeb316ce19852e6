"""Masked sequences: a row of bytes as tokens, with a number of masks in place of each masked span."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.segmentation.config import SEGMENTATION_CONFIG
from conservator.vocabularies import Tokens


@dataclass(frozen=True)
class MaskedSequence:
    """A row of bytes as tokens, with a number of masks in place of each span.

    Attributes:
        tokens: (N,) token ids; the vocabulary's mask at hidden tokens.
        masks: for each span, the index of its first mask and its number of masks.
    """

    tokens: Ints
    masks: list[tuple[int, int]]


def as_masked_sequence(parts: Sequence[Sequence[int]], counts: Sequence[int], mask: int) -> MaskedSequence:
    """Join the tokens of the visible parts with ``counts`` masks between them."""
    tokens, masks = list(parts[0]), []
    for part, count in zip(parts[1:], counts, strict=True):
        masks.append((len(tokens), count))
        tokens += [*[mask] * count, *part]
    return MaskedSequence(np.array(tokens, dtype=np.int64), masks)


def window_of(sequence: MaskedSequence, span: int, max_length: int | None) -> tuple[int, int]:
    """Return the window in which a span is predicted; windows start at multiples of a step, so that spans share them.

    Args:
        sequence: the masked sequence.
        span: index of the span.
        max_length: maximum window length, in tokens; None for no limit.
    """
    total = len(sequence.tokens)
    if max_length is None or total <= max_length:
        return 0, total
    first, count = sequence.masks[span]
    step = max_length // 4
    start = max(0, min((first + count // 2) // step * step - max_length // 2 + step // 2, total - max_length))
    return start, start + max_length


def likely_counts(length: int, bytes_per_token: float, tokens: Tokens, max_length: int | None) -> list[int]:
    """Return the most likely numbers of tokens in a span, ascending; empty if the span is too long for the expert.

    Args:
        length: length of the span, in bytes.
        bytes_per_token: mean length of a token, in bytes.
        tokens: the vocabulary.
        max_length: maximum number of tokens that the expert reads at once; a span may have half as many.
    """
    max_count = length if max_length is None else min(length, max_length // 2)
    possible = np.arange(-(-length // tokens.max_length), max_count + 1)
    log_probs = log_prior(possible, length / bytes_per_token)
    likely = np.argsort(-log_probs, kind="stable")[: SEGMENTATION_CONFIG.max_counts]
    return sorted(possible[likely].tolist())


def log_prior(counts: Ints, expected: float) -> Floats:
    """Unnormalised log-prior of numbers of tokens: a normal distribution around the expected number."""
    variance = SEGMENTATION_CONFIG.count_variance
    return np.asarray(-((counts - expected) ** 2) / (2 * variance * (1 + expected)), dtype=np.float64)
