"""A causal expert over tokens, made to speak of bytes: a state that is advanced by bytes, the law of the next byte.

A text x is the beginning of an endless stream of tokens, and

    log q(x) = log sum over the shortest t_1 ... t_n whose bytes begin with x of q(t_1 ... t_n)

The last token of each may go on after x. What stands before it is a node that the expert has read; so the state is a
set of hypotheses, each a node and the bytes since, which the token in progress must begin with. The law of the next
byte is a sum over hypotheses and over the tokens that begin so, which stand together where tokens are sorted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.experts.causal.prefixes import Prefix, Prefixes, log_sums
from conservator.experts.expert import IMPOSSIBLE
from conservator.vocabularies import BYTES

AT_ONCE = 128  # laws of the next token that are held at once


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A token is in progress: some bytes of it are read, and it has at least one more.

    Attributes:
        log_before: the log-probability of the tokens before it.
        node: the node of the reading after these; ROOT if there are none.
        last: the last of these; None if there are none.
        prefix: the tokens that it may be, which begin with the bytes that are read of it.
        log_probs: (n,) the law of the next token at the node, of these tokens.
    """

    log_before: float
    node: int
    last: int | None
    prefix: Prefix
    log_probs: NDArray[np.float32]

    @cached_property
    def onward(self) -> NDArray[np.float64]:
        """(m,) log q(the text, and this cut of it, and the next byte) for each byte of ``prefix.onward``."""
        return self.log_before + log_sums(self.log_probs, self.prefix.bounds)

    @cached_property
    def log_prob(self) -> float:
        """The log-probability of the text and this cut of it."""
        return log_sum(self.onward)

    @property
    def ended(self) -> NDArray[np.float64]:
        """(n,) log q(the text, cut so that it ends with a token), for each token that is the bytes that are read."""
        return self.log_before + self.log_probs[: self.prefix.ended].astype(np.float64)

    def advance(self, byte: int, prefixes: Prefixes) -> "Hypothesis":
        """The hypothesis that the token goes on with a byte, and after it."""
        log_probs = self.log_probs[self.prefix.after(byte)].copy()  # the rest of the law is needed no more
        prefix = prefixes.find(self.prefix.text + bytes([byte]))
        return Hypothesis(self.log_before, self.node, self.last, prefix, log_probs)


def mix(hypotheses: Sequence[Hypothesis], ended: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """(256,) the law of the next byte, by hypotheses each with its probability.

    Args:
        hypotheses: tokens in progress.
        ended: (256,) log q(the text, and the next byte) by cuts that are not among them.
    """
    sums = np.full(BYTES.size, -np.inf) if ended is None else ended.copy()
    for hypothesis in hypotheses:
        onward = hypothesis.prefix.onward
        sums[onward] = np.logaddexp(sums[onward], hypothesis.onward)
    total = log_sum(sums)
    if total == -math.inf:
        raise ConservatorError("the text is impossible, so there is no law of its next byte")
    return np.maximum(sums - total, IMPOSSIBLE)


def log_sum(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The log-sum-exp; -inf of nothing."""
    return float(np.logaddexp.reduce(np.asarray(values, dtype=np.float64), initial=-np.inf))
