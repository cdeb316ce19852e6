"""Byte conditionals of a causal expert over tokens: a state that is advanced byte by byte.

A text x is a prefix of an endless sequence of tokens, and

    log q(x) = log sum over the shortest t_1 ... t_n whose bytes start with x of q(t_1 ... t_n)

The last token of each sequence may extend beyond x. The tokens before it are a node of the token tree. So the state is
a set of hypotheses, each a node and the bytes since that node, which are a prefix of the token in progress. The
conditional of the next byte is a sum over hypotheses and over the tokens with that prefix, which form a range of the
sorted tokens.
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

MAX_ROWS = 128  # rows: conditionals of the next token that are in memory at once [safety limit]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A token in progress: some of its bytes are in the text, and at least one more follows.

    Attributes:
        log_before: log-probability of the tokens before it.
        node: node of the token tree after these tokens; ROOT if there are none.
        last: the last of these tokens; None if there are none.
        prefix: the tokens that start with the bytes in the text.
        log_probs: (n,) conditional of the next token at the node, restricted to these tokens.
    """

    log_before: float
    node: int
    last: int | None
    prefix: Prefix
    log_probs: NDArray[np.float32]

    @cached_property
    def next_log_probs(self) -> NDArray[np.float64]:
        """(m,) log q(text, its tokenization by this hypothesis, next byte) for each byte of ``prefix.next_bytes``."""
        return self.log_before + log_sums(self.log_probs, self.prefix.bounds)

    @cached_property
    def log_prob(self) -> float:
        """Log-probability of the text and its tokenization by this hypothesis."""
        return log_sum(self.next_log_probs)

    @property
    def ended(self) -> NDArray[np.float64]:
        """(n,) log q(text, a token ends with it) for each token that equals the bytes in the text."""
        return self.log_before + self.log_probs[: self.prefix.ended].astype(np.float64)

    def advance(self, byte: int, prefixes: Prefixes) -> "Hypothesis":
        """Return the hypothesis that the token in progress continues with a byte and extends beyond it."""
        log_probs = self.log_probs[self.prefix.after(byte)].copy()  # a copy, so that the other rows can be freed
        prefix = prefixes.find(self.prefix.text + bytes([byte]))
        return Hypothesis(self.log_before, self.node, self.last, prefix, log_probs)


def next_byte_log_probs(
    hypotheses: Sequence[Hypothesis], others: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(256,) the conditional log q(next byte | text), summed over hypotheses.

    Args:
        hypotheses: tokens in progress.
        others: (256,) log q(text, next byte) of all other tokenizations.
    """
    sums = np.full(BYTES.size, -np.inf) if others is None else others.copy()
    for hypothesis in hypotheses:
        next_bytes = hypothesis.prefix.next_bytes
        sums[next_bytes] = np.logaddexp(sums[next_bytes], hypothesis.next_log_probs)
    total = log_sum(sums)
    if total == -math.inf:
        raise ConservatorError("the model gives this text probability 0, so its next byte has no distribution")
    return np.maximum(sums - total, IMPOSSIBLE)


def log_sum(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Log-sum-exp; -inf for an empty sequence."""
    return float(np.logaddexp.reduce(np.asarray(values, dtype=np.float64), initial=-np.inf))
