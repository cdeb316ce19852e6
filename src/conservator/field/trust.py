"""Trust: which share of the weight an expert that recalls text gets, by how sure it is.

Such an expert is right at some positions and knows nothing of others, whatever the region. So its weight b is drawn
anew at every position, from a distribution that depends on how sure it is there; the other experts, whose composition
predicts q, share the rest. With the class c_l of its certainty at a position l:

    c_l = floor(-log(1 - max_v p_l(v)) / STEP)
    pi_b(v) proportional to q(v)^(1 - b) p(v)^b
    p(v) = sum_b p(b | c_l) pi_b(v)

The table p(b | c) maximises the evidence of visible positions times a Dirichlet prior. The logarithm of that is concave
in the table, and EM finds its maximum.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

SHARES = np.arange(9) / 8  # the values of b
STEP = 0.7  # nats of certainty in a class
CLASSES = 12
# The mean of b in each class before anything is seen; from documents that were held out when experts were trained.
MEANS = (0.12, 0.18, 0.30, 0.42, 0.50, 0.56, 0.62, 0.66, 0.70, 0.73, 0.76, 0.78)
STRENGTH = 10.0  # how many positions of each class the prior counts for
ITERATIONS = 200
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Trust:
    """The distribution p(b | c) of the weight of an expert that recalls.

    Attributes:
        table: (CLASSES, B) one row for each class of certainty.
    """

    table: Array

    def weight(self, recalled: Tensor) -> Tensor:
        """The mean weight of the expert where it predicts ``recalled`` (n, V): (n,)."""
        return torch.from_numpy(self.table @ SHARES)[certainty(recalled)]

    def log_probs(self, composed: Tensor, recalled: Tensor) -> Tensor:
        """The predictions (n, V) of all experts, from those of the others and what the expert recalls."""
        chance = torch.from_numpy(self.table)[certainty(recalled)].to(composed.dtype)
        total = torch.zeros_like(composed)
        for number, pool in enumerate(shared_pools(composed, recalled)):
            total += chance[:, number, None] * pool.exp()
        return total.clamp_min(torch.finfo(total.dtype).tiny).log()


def certainty(recalled: Tensor) -> Tensor:
    """(n,) the class of certainty of each row of predictions (n, V)."""
    doubt = torch.log1p(-recalled.double().max(dim=-1).values.exp().clamp(max=1 - 1e-12))
    return (-doubt / STEP).long().clamp(max=CLASSES - 1)


def shared_pools(composed: Tensor, recalled: Tensor) -> Iterator[Tensor]:
    """The normalised pool (n, V) of two predictions for each share b of the second."""
    for share in SHARES.tolist():
        yield torch.log_softmax((1 - share) * composed + share * recalled, dim=-1)


def prior_table() -> Array:
    """p(b | c) before anything is seen: binomial, with the means MEANS."""
    count = len(SHARES) - 1
    ways = np.array([1.0])
    for _ in range(count):
        ways = np.convolve(ways, [1.0, 1.0])
    mean, steps = np.array(MEANS)[:, None], np.arange(count + 1)
    return ways * mean**steps * (1 - mean) ** (count - steps)


def fit_trust(evidence: Array, classes: NDArray[np.int64]) -> Trust:
    """Infer the table from n visible positions.

    Args:
        evidence: (n, B) the log-likelihood of what was observed, for each share b.
        classes: (n,) how sure the expert is.
    """
    prior = prior_table()
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True, initial=-np.inf))
    table = prior
    for _ in range(ITERATIONS):
        posterior = table[classes] * likelihood
        posterior /= posterior.sum(axis=1, keepdims=True)
        counts = STRENGTH * prior
        np.add.at(counts, classes, posterior)
        before, table = table, counts / counts.sum(axis=1, keepdims=True)
        if np.abs(table - before).max() < TOLERANCE:
            break
    return Trust(table)
