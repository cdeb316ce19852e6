"""Evidence of a lattice on folds that are drawn for it."""

from conservator.experts import Team
from conservator.field import grid_evidence, hide


def gather(experts, observation, folds, generator, weights, error_probs=None, **settings):
    """The evidence of ``weights`` (S, m), and what it cost."""
    team = Team(experts)
    patterns = folds.draw(~observation.lost, generator)
    hidden = hide(patterns, observation, error_probs, generator)
    with team.meter.measure() as spent:
        found = grid_evidence(team, observation, patterns, hidden, weights, repeats=folds.repeats, **settings)
    return found, spent.cost
