"""The exact posterior of lattice fields, under the Markov prior with the highest evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.field.forward_backward import posterior
from conservator.field.weight_grid import MarkovPrior, constant, sticky, two_level

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GridPosterior:
    """The posterior of a field on a lattice.

    Attributes:
        field: (L, m) the posterior mean of the composition, rows on the simplex.
        regions: (L, m) the posterior probability that a position is the text of each expert, under the most likely
            prior with regions; if there is none, as ``owners``.
        owners: (L, m) the same under the prior that was chosen; equal to ``field`` if that prior has no regions.
        states: (L, S) the posterior of the lattice states.
        prior: the name of the prior that was chosen.
        log_evidence: the log evidence of the chosen prior, in nats.
        evidences: prior -> log evidence, for all priors that were tried.
    """

    field: Array
    regions: Array
    owners: Array
    states: Array
    prior: str
    log_evidence: float
    evidences: dict[str, float]


def global_prior(weights: Array) -> list[MarkovPrior]:
    """The prior of one composition for the whole sequence."""
    return [constant(weights)]


def default_priors(weights: Array) -> list[MarkovPrior]:
    """The priors from which the one with the highest evidence is chosen.

    They are: one composition for the whole sequence; regions of one expert's text, of about 300, 1000 or 3000
    positions; and compositions without regions that last for about 10, 30 or 100 positions, for text that is like no
    single expert's.
    """
    regions = [two_level(weights, jump, 0.2, 0.95) for jump in (0.0003, 0.001, 0.003)]
    return [constant(weights), *regions, *(sticky(weights, jump) for jump in (0.01, 0.03, 0.1))]


def grid_posterior(
    emissions: Array,
    weights: Array,
    priors: Sequence[MarkovPrior] | None = None,
    skipped: NDArray[np.int64] | None = None,
) -> GridPosterior:
    """Choose the prior with the highest evidence, and return the posterior under it.

    Only a prior with regions attributes each position to an expert. ``regions`` is therefore the posterior under the
    most likely prior with regions, even if another prior was chosen.

    Args:
        emissions: (L, S) the log-likelihood of the observation at each position in each lattice state.
        weights: (S, m) the lattice.
        priors: the priors to choose from. The states of a prior are those of the lattice, or if it has regions, those
            of the lattice once for each region.
        skipped: (L,) how many positions are left out before each of these.
    """
    priors = default_priors(weights) if priors is None else priors
    states = len(weights)
    if emissions.ndim != 2 or emissions.shape[1] != states or not np.isfinite(emissions.max(axis=1)).all():
        raise ConservatorError(
            f"the emissions have the shape {emissions.shape}; they must be (L, {states}), and no position impossible"
        )
    if not priors:
        raise ConservatorError("no priors to choose from")
    evidences: dict[str, float] = {}
    chosen, attributing = "", (False, -np.inf)  # whether the prior has regions, and its evidence
    for prior in priors:
        levels = len(prior.weights) // states
        evidence, law = posterior(np.tile(emissions, (1, levels)) if levels > 1 else emissions, prior, skipped)
        evidences[prior.name] = evidence
        if not chosen or evidence > evidences[chosen]:
            chosen, field, owners = prior.name, law @ prior.weights, law @ prior.regions
            shares = law.reshape(len(law), -1, states).sum(axis=1)
        if (levels > 1, evidence) > attributing:
            attributing, regions = (levels > 1, evidence), law @ prior.regions
    return GridPosterior(field, regions, owners, shares, chosen, evidences[chosen], evidences)
