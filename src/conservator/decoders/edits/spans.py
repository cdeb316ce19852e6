"""The stretches of a line that are in doubt, and the clean texts that a lattice has for each of them."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.beam import Lattice

FIRM = 0.999  # the probability with which a space that ends a stretch stays, and nothing is missing at it
SURE = 0.98  # the probability of staying from which a character is not in doubt
FAR = 14.0  # nats: steps that are less probable than this are left out
MOST = 6  # clean texts of a stretch
CLOSE = 5.0  # nats: clean texts that are less likely than the best by more than this are left out


class Alternative(NamedTuple):
    """A clean text for a stretch.

    Attributes:
        text: the text.
        steps: those that write it, in the likeliest way.
        score: its log-probability, with all that may stand before and after it.
    """

    text: str
    steps: tuple[int, ...]
    score: float


class Stretch(NamedTuple):
    """A stretch of a line between spaces that are sure, with the clean texts that are likeliest, the best first.

    The text as it was seen is one of them, unless the search has pruned it.
    """

    start: int
    stop: int
    alternatives: tuple[Alternative, ...]


def find_stretches(line: str, lattice: Lattice, steps: LineArcs) -> list[Stretch]:
    """The stretches of a line in which some character may not stay as it is."""
    mass = lattice.ahead[lattice.starts] + lattice.scores + lattice.behind[lattice.stops] - lattice.behind[0]
    likely = np.flatnonzero(mass > -FAR)
    staying, missing = np.zeros(len(line) + 1), np.zeros(len(line) + 1)
    for total, some in ((staying, steps.stays), (missing, steps.widths == 0)):
        arcs = likely[some[lattice.steps[likely]]]
        np.add.at(total, lattice.places[lattice.starts[arcs]], np.exp(mass[arcs]))
    firm = [
        place
        for place, character in enumerate(line)
        if character == " " and staying[place] > FIRM and missing[place : place + 2].max() < 1 - FIRM
    ]
    found = []
    cuts = sorted({0, *firm, len(line)})
    for start, stop in pairwise(cuts):
        if staying[start:stop].min() < SURE or missing[start : stop + 1].max() > 1 - SURE:
            found.append(Stretch(start, stop, best_texts(line, lattice, steps, likely, start, stop)))
    return found


def best_texts(
    line: str, lattice: Lattice, steps: LineArcs, arcs: NDArray[np.int64], start: int, stop: int
) -> tuple[Alternative, ...]:
    """The likeliest clean texts of a stretch, and the text as it was seen; arcs are in the order of the search."""
    places = lattice.places
    inside = (places[lattice.starts[arcs]] >= start) & (places[lattice.stops[arcs]] <= stop)
    ends = stop == len(line)
    if not ends:  # what is missing before a firm space is none of the stretch
        inside &= places[lattice.starts[arcs]] < stop
    begun: dict[int, dict[str, Alternative]] = {}  # hypothesis -> the texts up to it
    written = {}
    now, texts = -1, []
    for arc in arcs[inside].tolist():
        node, step = int(lattice.starts[arc]), int(lattice.steps[arc])
        if node != now:
            if places[node] == start and node not in begun and not (start and _misses(lattice, steps, node)):
                begun[node] = {"": Alternative("", (), float(lattice.ahead[node]))}
            now, texts = node, _likeliest(begun.get(node, {}))
        if step not in written:
            written[step] = "".join(map(chr, steps.texts[step, : steps.sizes[step]].tolist()))
        there = begun.setdefault(int(lattice.stops[arc]), {})
        for one in texts:
            score = one.score + float(lattice.scores[arc])
            _add(there, Alternative(one.text + written[step], (*one.steps, step), score))
    ended: dict[str, Alternative] = {}
    for node, found in begun.items():
        if places[node] == stop:
            after = float((0 if ends else lattice.behind[node]) - lattice.behind[0])
            for one in found.values():
                _add(ended, one._replace(score=one.score + after))
    likeliest = _likeliest(ended)
    best = [one for one in likeliest if one.score >= likeliest[0].score - CLOSE]
    seen = ended.get(line[start:stop])
    return (*best, *([seen] if seen is not None and seen not in best else []))


def _misses(lattice: Lattice, steps: LineArcs, node: int) -> bool:
    """Whether the last step to a hypothesis writes what is missing."""
    return bool(steps.widths[lattice.steps[lattice.best[node]]] == 0)


def _likeliest(texts: dict[str, Alternative]) -> list[Alternative]:
    """The likeliest of some texts, the best first."""
    return sorted(texts.values(), key=lambda one: (-one.score, one.text))[:MOST]


def _add(texts: dict[str, Alternative], one: Alternative) -> None:
    """Add another way to write a text; the steps are those of the likelier way."""
    other = texts.get(one.text)
    if other is not None:
        likelier = one if one.score > other.score else other
        one = likelier._replace(score=float(np.logaddexp(one.score, other.score)))
    texts[one.text] = one
