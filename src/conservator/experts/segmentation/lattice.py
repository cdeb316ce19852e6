"""The lattice of all segmentations of a masked span into k tokens; exact sums over its paths."""

import math

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.experts.segmentation.spans import MaskedSpan
from conservator.vocabularies import BYTES, Tokens


class SegmentationLattice:
    """The tokens that match at each position of a masked span: arcs of a lattice whose paths are segmentations.

    Attributes:
        span: the masked span.
        tokens: the vocabulary.
        matching: for each position, the rows of ``Tokens.table`` that match there, sorted by length.
    """

    def __init__(self, span: MaskedSpan, tokens: Tokens) -> None:
        """Find the matching tokens."""
        pattern = list(span.pattern)
        self.span, self.tokens = span, tokens
        self.matching = []
        for position in range(len(pattern)):
            rows = tokens.matching_rows(pattern[position : position + tokens.max_length])
            self.matching.append(rows[np.argsort(tokens.lengths[rows], kind="stable")])

    def byte_conditionals(self, log_probs: NDArray[np.floating]) -> tuple[float, Floats]:
        """Return the probability that k independent tokens match the pattern, and the distributions of hidden bytes.

            Z = sum over segmentations of  prod_j p_j(token_j),    p(byte at l) = (sum over segmentations with it) / Z

        Args:
            log_probs: (k, V) log p_j, the distribution of each token.

        Returns:
            log Z, and (hidden bytes, 256); -inf and zeros if there is no segmentation.
        """
        size, count = len(self.span.pattern), len(log_probs)
        maxima = log_probs.max(axis=1)
        probs = np.exp(log_probs - maxima[:, None])
        alpha = np.zeros((count + 1, size + 1))  # forward sums, by number of tokens before a position
        beta = np.zeros((count + 1, size + 1))  # backward sums, by number of tokens before a position
        alpha[0, 0] = beta[count, size] = 1.0
        arcs = [self._arcs(position, probs) for position in range(size)]
        for position, (ends, firsts, arc_probs) in enumerate(arcs):
            if len(ends):
                sums = np.add.reduceat(arc_probs, firsts, axis=1, dtype=np.float64)
                alpha[1:, ends] += alpha[:-1, position, None] * sums
        for position in range(size - 1, -1, -1):
            ends, firsts, arc_probs = arcs[position]
            if len(ends):
                sums = np.add.reduceat(arc_probs, firsts, axis=1, dtype=np.float64)
                beta[:-1, position] = (beta[1:, ends] * sums).sum(axis=1)
        total = float(alpha[count, size])
        marginals = np.zeros((size, BYTES.size))
        if total > 0:
            for position, (ends, firsts, arc_probs) in enumerate(arcs):
                weights = alpha[:-1, position, None] * beta[1:, ends] / total  # (k, lengths)
                for number, end in enumerate(ends.tolist()):
                    group = slice(firsts[number], firsts[number + 1] if number + 1 < len(firsts) else None)
                    weight = weights[:, number] @ arc_probs[:, group]
                    for covered in range(position, end):
                        if self.span.pattern[covered] == BYTES.mask:
                            token_bytes = self.tokens.table[self.matching[position][group], covered - position]
                            marginals[covered] += np.bincount(token_bytes, weight, BYTES.size)
        log_total = math.log(total) + float(maxima.sum()) if total > 0 else -math.inf
        return log_total, marginals[self.span.hidden]

    def _arcs(self, position: int, probs: NDArray[np.floating]) -> tuple[Ints, Ints, NDArray[np.floating]]:
        """Return the arcs from a position, grouped by length: end and first arc of each group, and (k, R) probs."""
        rows = self.matching[position]
        lengths, firsts = np.unique(self.tokens.lengths[rows], return_index=True)
        return position + lengths, firsts, probs[:, self.tokens.token_ids[rows]]
