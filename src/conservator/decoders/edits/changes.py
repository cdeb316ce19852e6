"""The changes of a best path, with their probability and what each gains over the text as it was seen.

What is written for a mark is a change of its own; its gain is infinite, since a mark never was in the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.beam import Lattice


@dataclass(frozen=True)
class Change:
    """A stretch of a line that another text is likelier for.

    Attributes:
        start: where it begins in what was seen.
        stop: where it ends.
        seen: what was seen there.
        text: what it becomes.
        probability: of this change, with all that may stand around it.
        log_odds: its log-probability minus that of the stretch as it was seen; infinite if that was pruned.
    """

    start: int
    stop: int
    seen: str
    text: str
    probability: float
    log_odds: float


def find_changes(line: str, lattice: Lattice, steps: LineArcs) -> list[Change]:
    """The changes of the best path: runs of edits with nothing between them that stays, and what fills a mark."""
    taken = lattice.steps[lattice.path()].tolist()
    if all(steps.stays[step] for step in taken):
        return []
    arcs = Arcs(lattice)
    found: list[Change] = []
    place = 0
    run: list[int] = []
    start = 0
    for step in [*taken, None]:
        if run and (step is None or steps.stays[step] or steps.fills[step] or steps.fills[run[-1]]):
            found.append(_change(line[start:place], arcs, steps, start, run))
            run = []
        if step is not None and not steps.stays[step]:
            if not run:
                start = place
            run.append(step)
        if step is not None:
            place += int(steps.widths[step])
    return found


def _change(seen: str, arcs: "Arcs", steps: LineArcs, start: int, run: Sequence[int]) -> Change:
    """The change that some steps make of what was seen."""
    stop = start + len(seen)
    text = "".join(chr(one) for step in run for one in steps.texts[step, : steps.sizes[step]])
    made = arcs.log_mass(start, run)
    if steps.fills[run[0]]:
        return Change(start, stop, seen, text, float(np.exp(min(0.0, made))), np.inf)
    stays = [_stay(steps, place) for place in range(start, stop)]
    kept = arcs.log_mass(start, stays) if stays else arcs.log_unbroken(start, steps)
    return Change(start, stop, seen, text, float(np.exp(min(0.0, made))), float(made - kept))


def _stay(steps: LineArcs, place: int) -> int:
    """The step that leaves the character at a place as it is."""
    here = np.arange(steps.begins[place], steps.begins[place + 1])
    return int(here[steps.stays[here]][0])


class Arcs:
    """The arcs of a lattice by the hypothesis and the step that they start with."""

    def __init__(self, lattice: Lattice) -> None:
        """Take the lattice."""
        self.lattice = lattice
        ends = lattice.behind[lattice.stops] > -np.inf
        kept = np.flatnonzero(ends)
        pairs = zip(lattice.starts[kept].tolist(), lattice.steps[kept].tolist(), strict=True)
        self.arcs = dict(zip(pairs, kept.tolist(), strict=True))
        self.total = float(lattice.behind[0])

    def log_mass(self, start: int, steps: Sequence[int]) -> float:
        """The log of the probability of all paths that take these steps from a place on."""
        lattice = self.lattice
        found = [-np.inf]
        for node in np.flatnonzero((lattice.places == start) & (lattice.behind > -np.inf)).tolist():
            score, now = float(lattice.ahead[node]), node
            for step in steps:
                arc = self.arcs.get((now, step))
                if arc is None:
                    break
                score += float(lattice.scores[arc])
                now = int(lattice.stops[arc])
            else:
                found.append(score + float(lattice.behind[now]))
        return float(np.logaddexp.reduce(found)) - self.total

    def log_unbroken(self, place: int, steps: LineArcs) -> float:
        """The log of the probability that nothing is missing before a place."""
        lattice = self.lattice
        nodes = np.flatnonzero((lattice.places == place) & (lattice.behind > -np.inf))
        incoming = lattice.best[nodes]
        nodes = nodes[(incoming < 0) | (steps.widths[lattice.steps[incoming]] > 0)]
        found = [-np.inf, *(lattice.ahead[nodes] if place == lattice.places.max() else [])]
        onward = np.isin(lattice.starts, nodes) & (steps.widths[lattice.steps] > 0)
        found += (lattice.ahead[lattice.starts] + lattice.scores + lattice.behind[lattice.stops])[onward].tolist()
        return float(np.logaddexp.reduce(found)) - self.total


def expected_edits(lattice: Lattice, steps: LineArcs) -> float:
    """How many edits are expected in a line."""
    made = ~(steps.stays | steps.fills)[lattice.steps]
    mass = lattice.ahead[lattice.starts] + lattice.scores + lattice.behind[lattice.stops] - lattice.behind[0]
    return float(np.exp(mass[made]).sum())
