"""The ways to cover a pattern of bytes by k tokens, summed exactly if the tokens are independent."""

import math

import numpy as np
from numpy.typing import NDArray

from conservator.experts.segmentation.spans import Stretch
from conservator.vocabularies import BYTES, Tokens

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Segmentation = tuple[int, ...]  # rows of ``Tokens.table``: tokens, each in one of its spellings


class SegmentationLattice:
    """The tokens that fit at each place of a stretch: the edges of a lattice whose paths are its covers."""

    def __init__(self, stretch: Stretch, tokens: Tokens) -> None:
        """Look up what fits."""
        pattern = list(stretch.pattern)
        self.stretch, self.tokens = stretch, tokens
        self.fitting = []  # at each place: the rows of the tokens that fit there, by their length
        for place in range(len(pattern)):
            rows = tokens.matching_rows(pattern[place : place + tokens.max_length])
            self.fitting.append(rows[np.argsort(tokens.lengths[rows], kind="stable")])

    def byte_conditionals(self, log_probs: NDArray[np.floating]) -> tuple[float, Floats]:
        """The probability that k independent tokens agree with the visible bytes, and the laws of the hidden ones.

            Z = sum over covers of  prod_j p_j(token_j),    p(byte at l) = (sum over covers with it) / Z

        Args:
            log_probs: (k, V) log p_j, the law of each token.

        Returns:
            log Z, and (hidden bytes, 256); -inf and zeros if there is no cover.
        """
        size, count = len(self.stretch.pattern), len(log_probs)
        peaks = log_probs.max(axis=1)
        laws = np.exp(log_probs - peaks[:, None])
        ahead = np.zeros((count + 1, size + 1))  # of what is before a place, by so many tokens
        behind = np.zeros((count + 1, size + 1))  # of what is after it, by the tokens from that number on
        ahead[0, 0] = behind[count, size] = 1.0
        edges = [self._edges(place, laws) for place in range(size)]
        for place, (ends, firsts, shares) in enumerate(edges):
            if len(ends):
                ahead[1:, ends] += ahead[:-1, place, None] * np.add.reduceat(shares, firsts, axis=1, dtype=np.float64)
        for place in range(size - 1, -1, -1):
            ends, firsts, shares = edges[place]
            if len(ends):
                sums = np.add.reduceat(shares, firsts, axis=1, dtype=np.float64)
                behind[:-1, place] = (behind[1:, ends] * sums).sum(axis=1)
        total = float(ahead[count, size])
        found = np.zeros((size, BYTES.size))
        if total > 0:
            for place, (ends, firsts, shares) in enumerate(edges):
                weights = ahead[:-1, place, None] * behind[1:, ends] / total  # (k, lengths)
                for number, end in enumerate(ends.tolist()):
                    some = slice(firsts[number], firsts[number + 1] if number + 1 < len(firsts) else None)
                    weight = weights[:, number] @ shares[:, some]
                    for where in range(place, end):
                        if self.stretch.pattern[where] == BYTES.mask:
                            there = self.tokens.table[self.fitting[place][some], where - place]
                            found[where] += np.bincount(there, weight, BYTES.size)
        log_total = math.log(total) + float(peaks.sum()) if total > 0 else -math.inf
        return log_total, found[self.stretch.hidden]

    def _edges(self, place: int, laws: NDArray[np.floating]) -> tuple[Ints, Ints, NDArray[np.floating]]:
        """What fits at a place: where tokens of each length end, the first of each length, and (k, R) their laws."""
        rows = self.fitting[place]
        lengths, firsts = np.unique(self.tokens.lengths[rows], return_index=True)
        return place + lengths, firsts, laws[:, self.tokens.token_ids[rows]]

    def best(self, log_probs: NDArray[np.floating], count: int) -> dict[Segmentation, float]:
        """The most likely covers by k independent tokens, at most ``count``, with their log-probabilities."""
        size = len(self.stretch.pattern)
        ends: list[dict[Segmentation, float]] = [
            {(): 0.0},
            *({} for _ in range(size)),
        ]  # the beginnings that end at each place
        for law in log_probs:
            longer: list[dict[Segmentation, float]] = [{} for _ in range(size + 1)]
            for place, beginnings in enumerate(ends[:-1]):
                rows = self.fitting[place] if beginnings else self.fitting[place][:0]
                likely = rows[np.argsort(-law[self.tokens.token_ids[rows]], kind="stable")]
                kept: dict[int, int] = {}  # how many tokens of each length; more than ``count`` are none of the best
                for row in likely.tolist():
                    length, gain = int(self.tokens.lengths[row]), float(law[self.tokens.token_ids[row]])
                    kept[length] = kept.get(length, 0) + 1
                    if kept[length] <= count:
                        longer[place + length] |= {(*cover, row): score + gain for cover, score in beginnings.items()}
            ends = [dict(sorted(one.items(), key=lambda each: -each[1])[:count]) for one in longer]
        return ends[size]

    def spelt(self, covers: dict[Segmentation, float]) -> tuple[float, Floats]:
        """The total of the probabilities of covers, as its logarithm, and the laws (hidden bytes, 256) by them."""
        hidden = self.stretch.hidden
        found = np.zeros((len(hidden), BYTES.size))
        if not covers:
            return -math.inf, found
        total = float(np.logaddexp.reduce(list(covers.values())))
        for cover, score in covers.items():
            data = np.concatenate([self.tokens.table[row, : self.tokens.lengths[row]] for row in cover])
            found[np.arange(len(hidden)), data[hidden]] += math.exp(score - total)
        return total, found
