"""The ``bayes`` engine: the exact posterior of lattice fields under a Markov prior that the evidence chooses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.field.forward_backward import posterior
from conservator.field.lattice import MarkovPrior, constant, two_level

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BayesField:
    """The posterior of a field.

    Attributes:
        field: (L, m) the posterior mean of the composition, rows on the simplex.
        regions: (L, m) the posterior of the region: whose text a position is.
        states: (L, S) the posterior of the lattice states.
        prior: the name of the prior that was chosen.
        log_evidence: nats, of the chosen prior.
        evidences: prior -> log evidence, for all that were tried.
    """

    field: Array
    regions: Array
    states: Array
    prior: str
    log_evidence: float
    evidences: dict[str, float]


def default_priors(weights: Array) -> list[MarkovPrior]:
    """The priors that the evidence chooses from: regions of about 300, 1000 or 3000 positions, or one for all."""
    return [constant(weights), *(two_level(weights, jump, 0.2, 0.95) for jump in (0.0003, 0.001, 0.003))]


def infer_bayes(emissions: Array, weights: Array, priors: Sequence[MarkovPrior] | None = None) -> BayesField:
    """Choose the prior under which what was seen is most likely, and return the posterior under it.

    Args:
        emissions: (L, S) the log-probability of what was seen at each position in each lattice state.
        weights: (S, m) the lattice.
        priors: to choose from; each has the lattice's states, one or several times over.
    """
    priors = default_priors(weights) if priors is None else priors
    states = len(weights)
    if emissions.ndim != 2 or emissions.shape[1] != states or not np.isfinite(emissions.max(axis=1)).all():
        raise ConservatorError(
            f"the emissions have the shape {emissions.shape}; they must be (L, {states}), and no position impossible"
        )
    evidences, best = {}, None
    for prior in priors:
        levels = len(prior.weights) // states
        evidence, law = posterior(np.tile(emissions, (1, levels)) if levels > 1 else emissions, prior)
        evidences[prior.name] = evidence
        if best is None or evidence > best[0]:
            best = evidence, law, prior
    if best is None:
        raise ConservatorError("no priors to choose from")
    evidence, law, chosen = best
    return BayesField(
        law @ chosen.weights,
        law @ chosen.regions,
        law.reshape(len(law), -1, states).sum(axis=1),
        chosen.name,
        evidence,
        evidences,
    )
