"""Lattices: sums over all paths, and posteriors of arcs.

A lattice has N nodes and E arcs between them. A path from node 0 to a final node is a hypothesis, and its log-score is
the sum of the log-scores of its arcs. With alpha and beta the forward and backward sums,

    Z = sum over paths of exp(score),    p(arc) = exp(alpha_source + score + beta_target) / Z
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.numerics import add_logs, compiled


@dataclass(frozen=True)
class Lattice:
    """Arcs between nodes, in an order in which all arcs into a node come before those out of it.

    Attributes:
        size: N, the number of nodes; node 0 is the root.
        sources, targets: (E,) the nodes that each arc connects.
        scores: (E,) the log-score of each arc.
        final: (F,) the final nodes.
    """

    size: int
    sources: Ints
    targets: Ints
    scores: Floats
    final: Ints

    @cached_property
    def alpha(self) -> Floats:
        """(N,) forward log-sums: over the paths from the root to each node; -inf if there is none."""
        return forward_sums(self.size, self.sources, self.targets, self.scores)

    @cached_property
    def beta(self) -> Floats:
        """(N,) backward log-sums: over the paths from each node to a final node; -inf if there is none."""
        return backward_sums(self.size, self.sources, self.targets, self.scores, self.final)

    @property
    def log_total(self) -> float:
        """The value of log Z; -inf if no path reaches a final node."""
        return float(self.beta[0])

    @cached_property
    def log_posteriors(self) -> Floats:
        """(E,) log p(arc)."""
        if self.log_total == -np.inf:
            return np.full(len(self.scores), -np.inf)
        log_posteriors: Floats = self.alpha[self.sources] + self.scores + self.beta[self.targets] - self.log_total
        return log_posteriors


@compiled
def forward_sums(size: int, sources: Ints, targets: Ints, scores: Floats) -> Floats:
    """Return alpha (N,)."""
    alpha = np.full(size, -np.inf)
    alpha[0] = 0.0
    for arc in range(len(sources)):
        alpha[targets[arc]] = add_logs(alpha[targets[arc]], alpha[sources[arc]] + scores[arc])
    return alpha


@compiled
def backward_sums(size: int, sources: Ints, targets: Ints, scores: Floats, final: Ints) -> Floats:
    """Return beta (N,)."""
    beta = np.full(size, -np.inf)
    for node in final:
        beta[node] = 0.0
    for arc in range(len(sources) - 1, -1, -1):
        beta[sources[arc]] = add_logs(beta[sources[arc]], scores[arc] + beta[targets[arc]])
    return beta
