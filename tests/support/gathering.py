"""Evidence of a weight grid on random folds."""

from conservator.experts import Team
from conservator.field import grid_evidence, hide


def gather(experts, observation, folds, generator, weights, doubt=None, **settings):
    """The evidence of ``weights`` (S, m), and its cost."""
    team = Team(experts)
    patterns = folds.draw(~observation.lost, generator)
    hidden = hide(patterns, observation, doubt, generator)
    with team.meter.measure() as measured:
        evidence = grid_evidence(team, observation, patterns, hidden, weights, repeats=folds.repeats, **settings)
    return evidence, measured.cost
