"""The changes of the best path, with their probability and their log-odds against the observed text.

A character that replaces a mark is a change of its own. Its log-odds are infinite, because a mark is never clean text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.beam import LineLattice


@dataclass(frozen=True)
class Change:
    """A span of a line with a more likely text.

    Attributes:
        start: the start of the span in the observed line.
        stop: the end of the span.
        seen: the observed text of the span.
        text: the new text of the span.
        probability: the probability of this change, summed over the texts around it.
        log_odds: its log-probability minus that of the observed text; infinite if the observed text was pruned.
        alternatives: texts of the span and their probabilities, this change first; empty if they were not requested.
    """

    start: int
    stop: int
    seen: str
    text: str
    probability: float
    log_odds: float
    alternatives: tuple[tuple[str, float], ...] = ()


def find_changes(line: str, lattice: LineLattice, arcs: LineArcs) -> list[Change]:
    """Return the changes of the best path: maximal runs of edits, and each character that replaces a mark."""
    best_path = lattice.arcs[lattice.best_path()].tolist()
    if all(arcs.keep[arc] for arc in best_path):
        return []
    edges = EdgeIndex(lattice)
    changes: list[Change] = []
    position = 0
    run: list[int] = []
    start = 0
    for arc in [*best_path, None]:
        if run and (arc is None or arcs.keep[arc] or arcs.fills_mark[arc] or arcs.fills_mark[run[-1]]):
            changes.append(_change(line[start:position], edges, arcs, start, run))
            run = []
        if arc is not None and not arcs.keep[arc]:
            if not run:
                start = position
            run.append(arc)
        if arc is not None:
            position += int(arcs.widths[arc])
    return changes


def _change(observed: str, edges: "EdgeIndex", arcs: LineArcs, start: int, run: Sequence[int]) -> Change:
    """Return the change that a run of arcs makes of the observed text."""
    stop = start + len(observed)
    text = "".join(chr(character) for arc in run for character in arcs.texts[arc, : arcs.lengths[arc]])
    log_prob = edges.log_prob(start, run)
    if arcs.fills_mark[run[0]]:
        return Change(start, stop, observed, text, float(np.exp(min(0.0, log_prob))), np.inf)
    keep_run = [_keep_arc(arcs, position) for position in range(start, stop)]
    log_keep = edges.log_prob(start, keep_run) if keep_run else edges.log_prob_none_missing(start, arcs)
    return Change(start, stop, observed, text, float(np.exp(min(0.0, log_prob))), float(log_prob - log_keep))


def _keep_arc(arcs: LineArcs, position: int) -> int:
    """Return the arc that keeps the character at a position."""
    starting = np.arange(arcs.offsets[position], arcs.offsets[position + 1])
    return int(starting[arcs.keep[starting]][0])


class EdgeIndex:
    """The edges of a lattice by their source hypothesis and their arc."""

    def __init__(self, lattice: LineLattice) -> None:
        """Index the edges of a lattice that lead to its end."""
        self.lattice = lattice
        reaches_end = lattice.beta[lattice.targets] > -np.inf
        edges = np.flatnonzero(reaches_end)
        pairs = zip(lattice.sources[edges].tolist(), lattice.arcs[edges].tolist(), strict=True)
        self.edges = dict(zip(pairs, edges.tolist(), strict=True))
        self.total = lattice.log_total

    def log_prob(self, start: int, run: Sequence[int]) -> float:
        """Return the log-probability of all paths with this run of arcs from a position on."""
        lattice = self.lattice
        scores = [-np.inf]
        for node in np.flatnonzero((lattice.positions == start) & (lattice.beta > -np.inf)).tolist():
            score, current = float(lattice.alpha[node]), node
            for arc in run:
                edge = self.edges.get((current, arc))
                if edge is None:
                    break
                score += float(lattice.scores[edge])
                current = int(lattice.targets[edge])
            else:
                scores.append(score + float(lattice.beta[current]))
        return float(np.logaddexp.reduce(scores)) - self.total

    def log_prob_none_missing(self, position: int, arcs: LineArcs) -> float:
        """Return the log-probability that no character is missing before a position."""
        lattice = self.lattice
        nodes = np.flatnonzero((lattice.positions == position) & (lattice.beta > -np.inf))
        incoming = lattice.best_edges[nodes]
        nodes = nodes[(incoming < 0) | (arcs.widths[lattice.arcs[incoming]] > 0)]
        scores = [-np.inf, *(lattice.alpha[nodes] if position == lattice.positions.max() else [])]
        outgoing = np.isin(lattice.sources, nodes) & (arcs.widths[lattice.arcs] > 0)
        scores += (lattice.alpha[lattice.sources] + lattice.scores + lattice.beta[lattice.targets])[outgoing].tolist()
        return float(np.logaddexp.reduce(scores)) - self.total


def expected_edits(lattice: LineLattice, arcs: LineArcs) -> float:
    """Return the expected number of edits of a line."""
    is_edit = ~(arcs.keep | arcs.fills_mark)[lattice.arcs]
    log_prob = lattice.log_posteriors
    return float(np.exp(log_prob[is_edit]).sum())
