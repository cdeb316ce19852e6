"""Trust: which share of the weight an expert that recalls text gets, by how sure it is.

Such an expert is right at some positions and knows nothing of others, whatever the region. So its weight b is drawn
anew at every position, from a distribution that depends on how sure it is there, and on whether the other experts are
sure. These share the rest of the weight; their composition predicts q. With the class c_l of a position l:

    pi_b(v) proportional to q_l(v)^(1 - b) p_l(v)^b,    composed law: sum_b p(b | c_l) pi_b(v)

The table p(b | c) maximises the evidence of visible positions times a Dirichlet prior. The logarithm of that is concave
in the table, and EM finds its maximum.

On text that is unlike every expert's, all of them may be too sure. So the composed law is raised to a power, its
sharpness, which the evidence of the same positions chooses; below 1 it makes the law less sure.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

SHARES = np.arange(9) / 8  # the values of b
STEP = 0.7  # nats of certainty, -log(1 - max_v p(v)), in a class
STEPS = 12  # classes of certainty, if the others are unsure, and as many if they are sure
SURE = 1.2  # nats of certainty from which the others are sure
# The mean of b in the first class, and how it rises from class to class, before anything is seen. Both are what
# documents told that were held out when experts were trained.
UNSURE_MEANS, SURE_MEANS = (0.20, 0.05), (0.05, 0.06)
STRENGTH = 10.0  # how many positions of each class the prior counts for
SHARPNESS = np.arange(10, 21) / 20  # the values to choose from
SPREAD = 0.25  # the standard deviation of the logarithm of the sharpness, before anything is seen
ITERATIONS = 200
TOLERANCE = 1e-6


@dataclass(frozen=True)
class MemoryGate:
    """The distribution p(b | c) of the weight of an expert that recalls.

    Attributes:
        table: (2 * STEPS, B) one row for each class.
        sharpness: the power of the composed law.
    """

    table: Array
    sharpness: float = 1.0

    def weight(self, composed: Tensor, memory_weight: Tensor) -> Tensor:
        """The mean weight of the expert, where it predicts ``memory_weight`` and the others ``composed`` (n, V): (n,)."""
        return torch.from_numpy(self.table @ SHARES)[classes_of(composed, memory_weight)]

    def log_probs(self, composed: Tensor, memory_weight: Tensor) -> Tensor:
        """What all experts together predict, where the one recalls ``memory_weight`` and the others ``composed`` (n, V)."""
        chance = torch.from_numpy(self.table)[classes_of(composed, memory_weight)].to(composed.dtype)
        total = torch.zeros_like(composed)
        for number, pool in enumerate(shared_pools(composed, memory_weight)):
            total += chance[:, number, None] * pool.exp()
        law = total.clamp_min(torch.finfo(total.dtype).tiny).log()
        return law if self.sharpness == 1.0 else torch.log_softmax(self.sharpness * law, dim=-1)


def classes_of(composed: Tensor, memory_weight: Tensor) -> Tensor:
    """(n,) the class of each position."""
    own = (certainty(memory_weight) / STEP).long().clamp(max=STEPS - 1)
    return own + STEPS * (certainty(composed) >= SURE)


def certainty(log_probs: Tensor) -> Tensor:
    """-log(1 - max_v p(v)) of each row of predictions (n, V): (n,)."""
    return -torch.log1p(-log_probs.double().max(dim=-1).values.exp().clamp(max=1 - 1e-12))


def shared_pools(composed: Tensor, memory_weight: Tensor) -> Iterator[Tensor]:
    """The normalised pool (n, V) of two predictions for each share b of the second."""
    for share in SHARES.tolist():
        yield torch.log_softmax((1 - share) * composed + share * memory_weight, dim=-1)


def prior_table() -> Array:
    """p(b | c) before anything is seen: binomial."""
    count, steps = len(SHARES) - 1, np.arange(len(SHARES))
    ways = np.array([math.comb(count, step) for step in steps.tolist()])
    means = [first + rise * np.arange(STEPS) for first, rise in (UNSURE_MEANS, SURE_MEANS)]
    mean = np.concatenate(means)[:, None]
    return ways * mean**steps * (1 - mean) ** (count - steps)


def fit_memory_gate(evidence: Array, classes: NDArray[np.int64]) -> MemoryGate:
    """Infer the table from n visible positions.

    Args:
        evidence: (n, B) the log-likelihood of what was observed, for each share b.
        classes: (n,) the class of each position.
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
    return MemoryGate(table)


def fit_sharpness(evidence: Array) -> float:
    """The most likely sharpness.

    Args:
        evidence: (n, len(SHARPNESS)) the log-likelihood of what was observed at n visible positions, for each value.
    """
    prior = -0.5 * (np.log(SHARPNESS) / SPREAD) ** 2
    return float(SHARPNESS[np.argmax(evidence.sum(axis=0) + prior)])
