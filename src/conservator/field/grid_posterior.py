"""The exact posterior of fields on a weight grid, under the Markov prior with the highest evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.field.forward_backward import posterior
from conservator.field.weight_grid import MarkovPrior, constant, sticky, two_level

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PriorConfig:
    """Parameters of the default priors."""

    # probability per position: change of the domain segment, for segments of about 3000, 1000 and 300 positions
    # [LOG: folds-and-priors]
    segment_jumps: tuple[float, ...] = (0.0003, 0.001, 0.003)
    resample: float = 0.2  # probability per position: new composition in a segment [LOG: folds-and-priors]
    vertex_prob: float = 0.95  # probability: a segment uses its own expert alone [LOG: folds-and-priors]
    # probability per position: change of a composition without domain segments [LOG: out-of-domain-text]
    sticky_jumps: tuple[float, ...] = (0.01, 0.03, 0.1)


CONFIG = PriorConfig()


@dataclass(frozen=True)
class GridPosterior:
    """The posterior of a field on a weight grid.

    Attributes:
        field: (L, m) the posterior mean of the composition, rows on the simplex.
        regions: (L, m) the posterior probability that a position belongs to a domain segment of each expert, under the
            most likely prior with domain segments; without such a prior, equal to ``domain_probs``.
        domain_probs: (L, m) the same probability under the chosen prior; equal to ``field`` if that prior has no domain
            segments.
        states: (L, S) the posterior of the grid states.
        prior: the name of the chosen prior.
        log_evidence: the log evidence of the chosen prior, in nats.
        evidences: prior name -> log evidence, for all candidate priors.
    """

    field: Array
    regions: Array
    domain_probs: Array
    states: Array
    prior: str
    log_evidence: float
    evidences: dict[str, float]


def global_prior(weights: Array) -> list[MarkovPrior]:
    """Return the prior with one composition for the whole sequence."""
    return [constant(weights)]


def default_priors(weights: Array) -> list[MarkovPrior]:
    """Return the candidate priors of the engines. The prior with the highest evidence is used.

    Candidates: one composition for the whole sequence; domain segments of about 300, 1000 or 3000 positions; and
    compositions without domain segments that last for about 10, 30 or 100 positions, for out-of-domain text.
    """
    segments = [two_level(weights, jump, CONFIG.resample, CONFIG.vertex_prob) for jump in CONFIG.segment_jumps]
    return [constant(weights), *segments, *(sticky(weights, jump) for jump in CONFIG.sticky_jumps)]


def grid_posterior(
    emissions: Array,
    weights: Array,
    priors: Sequence[MarkovPrior] | None = None,
    skipped: NDArray[np.int64] | None = None,
) -> GridPosterior:
    """Choose the prior with the highest evidence, and return the posterior under it.

    Only a prior with domain segments attributes each position to an expert. ``regions`` is therefore the posterior
    under the most likely prior with domain segments, even if another prior is chosen.

    Args:
        emissions: (L, S) the log-likelihood of the observation at each position in each grid state.
        weights: (S, m) the grid.
        priors: candidate priors; None for the default priors. The states of a prior are the grid states, or one copy of
            the grid states for each expert if the prior has domain segments.
        skipped: (L,) the number of positions that are omitted before each position.
    """
    priors = default_priors(weights) if priors is None else priors
    state_count = len(weights)
    if emissions.ndim != 2 or emissions.shape[1] != state_count or not np.isfinite(emissions.max(axis=1)).all():
        raise ConservatorError(
            f"emissions must have the shape (L, {state_count}) and a finite value at every position, "
            f"got the shape {emissions.shape}"
        )
    if not priors:
        raise ConservatorError("priors must contain at least one prior, got an empty sequence")
    evidences: dict[str, float] = {}
    chosen, attributing = "", (False, -np.inf)  # whether the prior has domain segments, and its evidence
    for prior in priors:
        levels = len(prior.weights) // state_count
        evidence, probs = posterior(np.tile(emissions, (1, levels)) if levels > 1 else emissions, prior, skipped)
        evidences[prior.name] = evidence
        if not chosen or evidence > evidences[chosen]:
            chosen, field, domain_probs = prior.name, probs @ prior.weights, probs @ prior.regions
            states = probs.reshape(len(probs), -1, state_count).sum(axis=1)
        if (levels > 1, evidence) > attributing:
            attributing, regions = (levels > 1, evidence), probs @ prior.regions
    return GridPosterior(field, regions, domain_probs, states, chosen, evidences[chosen], evidences)
