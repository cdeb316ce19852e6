"""A gate: the weight of an expert as a function of its confidence.

An expert that retrieves text or looks up words is accurate at some positions and uninformative at others, independently
of the domain segment. Its weight b is therefore drawn anew at every position, from a distribution that depends on its
confidence there and on the confidence of the other experts. The other experts share the weight 1 - b; their composition
predicts q. With the class c_l of a position l:

    pi_b(v) proportional to q_l(v)^(1 - b) p_l(v)^b,    composed distribution: sum_b p(b | c_l) pi_b(v)

The table p(b | c) maximises the evidence of visible positions times a Dirichlet prior. The logarithm of this objective
is concave in the table, and EM finds its maximum. Most classes have few positions, so the classes may share a shift of
their prior means, on the logit scale: an expert that predicts the document well gets more weight in all classes. The
shift maximises the evidence under the prior table times a normal prior.

On out-of-domain text, all experts may be overconfident. The composed distribution is therefore raised to a power, its
inverse temperature, which maximises the evidence of the same positions. A value below 1 flattens the distribution.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.experts import GatePrior

Array = NDArray[np.float64]

GATE_WEIGHTS = np.arange(9) / 8  # weight: the values of b [untuned]
SHIFTS = np.arange(-8, 9) / 4  # logit: candidates for the shift of the prior means [LOG: word-expert]
# dimensionless: candidates for the inverse temperature, never above 1 [LOG: sampling-the-evidence]
INVERSE_TEMPERATURES = np.arange(10, 21) / 20


@dataclass(frozen=True)
class GateConfig:
    """Classes, priors and the EM of a gate. Confidence is -log(1 - max_v p(v)), in nats."""

    uninformative_nats: float = 0.15  # nats: below this confidence, an expert is uninformative [LOG: word-expert]
    uninformative_mean: float = 0.02  # weight: prior mean of b of an uninformative expert [LOG: word-expert]
    class_width_nats: float = 0.7  # nats: confidence of the gated expert per class [untuned]
    confidence_classes: int = 13  # classes: of the confidence of the gated expert [untuned]
    confident_nats: float = 1.2  # nats: the other experts are confident from this confidence on [untuned]
    max_prior_mean: float = 0.95  # weight: upper bound of the prior mean of b [LOG: word-expert]
    prior_strength: float = 10.0  # positions: pseudo-count of the prior in each class [untuned]
    log_temperature_std: float = 0.25  # nats: prior standard deviation of log inverse temperature [untuned]
    max_iterations: int = 200  # iterations: of EM [numerical]
    tolerance: float = 1e-6  # probability: EM stops at a smaller change of the table [numerical]


CONFIG = GateConfig()


@dataclass(frozen=True)
class Gate:
    """The distribution p(b | c) of the weight of a gated expert.

    Attributes:
        table: (2 * confidence_classes, B) one row for each class.
        inverse_temperature: the power of the composed distribution.
    """

    table: Array
    inverse_temperature: float = 1.0

    def weight(self, composed: Tensor, gated: Tensor) -> Tensor:
        """Return the mean weight of the gated expert: (n,).

        Args:
            composed: (n, V) log-probabilities of the composition of the other experts.
            gated: (n, V) log-probabilities of the gated expert.
        """
        return torch.from_numpy(self.table @ GATE_WEIGHTS)[classes_of(composed, gated)]

    def log_probs(self, composed: Tensor, gated: Tensor) -> Tensor:
        """Return the log-probabilities (n, V) of all experts together. Arguments as in ``weight``."""
        weight_probs = torch.from_numpy(self.table)[classes_of(composed, gated)].to(composed.dtype)
        total = torch.zeros_like(composed)
        difference = gated - composed
        for number, weight in enumerate(GATE_WEIGHTS.tolist()):
            total += weight_probs[:, number, None] * torch.softmax(composed + weight * difference, dim=-1)
        log_probs = total.clamp_min(torch.finfo(total.dtype).tiny).log()
        if self.inverse_temperature == 1.0:
            return log_probs
        return torch.log_softmax(self.inverse_temperature * log_probs, dim=-1)


def classes_of(composed: Tensor, gated: Tensor) -> Tensor:
    """Return (n,) the class of each position. Arguments as in ``Gate.weight``."""
    nats = confidence_nats(gated)
    steps = 1 + (nats / CONFIG.class_width_nats).long().clamp(max=CONFIG.confidence_classes - 2)
    steps[nats < CONFIG.uninformative_nats] = 0
    return steps + CONFIG.confidence_classes * (confidence_nats(composed) >= CONFIG.confident_nats)


def confidence_nats(log_probs: Tensor) -> Tensor:
    """Return -log(1 - max_v p(v)) of each row of predictions (n, V): (n,)."""
    return -torch.log1p(-log_probs.double().max(dim=-1).values.exp().clamp(max=1 - 1e-12))


def pools_by_weight(composed: Tensor, gated: Tensor) -> Iterator[Tensor]:
    """Yield the normalised pool (n, V) of two predictions for each weight b of the second."""
    for weight in GATE_WEIGHTS.tolist():
        yield torch.log_softmax((1 - weight) * composed + weight * gated, dim=-1)


def prior_table(prior: GatePrior, shift: float = 0.0) -> Array:
    """Return the prior of p(b | c): binomial, with a mean that increases with the confidence of the gated expert.

    Args:
        prior: of the gated expert.
        shift: added to the logits of the means of all classes except the uninformative ones.
    """
    trials, successes = len(GATE_WEIGHTS) - 1, np.arange(len(GATE_WEIGHTS))
    combinations = np.array([math.comb(trials, count) for count in successes.tolist()])
    informative = np.arange(CONFIG.confidence_classes - 1)
    means = []
    for first, increase in (prior.others_uncertain, prior.others_confident):
        mean = np.minimum(first + increase * informative, CONFIG.max_prior_mean)
        means += [[CONFIG.uninformative_mean], mean / (mean + (1 - mean) * math.exp(-shift))]
    mean = np.concatenate(means)[:, None]
    return combinations * mean**successes * (1 - mean) ** (trials - successes)


def fit_prior(likelihood: Array, classes: NDArray[np.int64], gate_prior: GatePrior) -> Array:
    """Return the prior table with the best shift of its means.

    Args:
        likelihood: (n, B) the likelihood of the observation for each weight b, up to a factor for each position.
        classes: (n,) the class of each position.
        gate_prior: of the expert.
    """
    if not gate_prior.shift_std:
        return prior_table(gate_prior)
    tables = [prior_table(gate_prior, shift) for shift in SHIFTS.tolist()]
    scores = [np.log((table[classes] * likelihood).sum(axis=1)).sum() for table in tables]
    return tables[int(np.argmax(np.array(scores) - 0.5 * (SHIFTS / gate_prior.shift_std) ** 2))]


def fit_gate(evidence: Array, classes: NDArray[np.int64], gate_prior: GatePrior) -> Gate:
    """Fit the table to n visible positions.

    Args:
        evidence: (n, B) the log-likelihood of the observation, for each weight b.
        classes: (n,) the class of each position.
        gate_prior: of the expert.
    """
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True, initial=-np.inf))
    table = prior = fit_prior(likelihood, classes, gate_prior)
    for _ in range(CONFIG.max_iterations):
        posterior = table[classes] * likelihood
        posterior /= posterior.sum(axis=1, keepdims=True)
        counts = CONFIG.prior_strength * prior
        np.add.at(counts, classes, posterior)
        before, table = table, counts / counts.sum(axis=1, keepdims=True)
        if np.abs(table - before).max() < CONFIG.tolerance:
            break
    return Gate(table)


def fit_inverse_temperature(evidence: Array) -> float:
    """Return the inverse temperature with the highest posterior.

    Args:
        evidence: (n, len(INVERSE_TEMPERATURES)) the log-likelihood of n visible positions, for each candidate.
    """
    prior = -0.5 * (np.log(INVERSE_TEMPERATURES) / CONFIG.log_temperature_std) ** 2
    return float(INVERSE_TEMPERATURES[np.argmax(evidence.sum(axis=0) + prior)])
