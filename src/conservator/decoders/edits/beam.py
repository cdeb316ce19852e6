"""A beam over the clean texts that may have been seen as a line.

A hypothesis is a clean beginning of the line. Its score is the log-probability of the channel plus ``scale`` times that
of the prior. Hypotheses at the same place that end in the same ``order - 1`` characters are merged: the beam is a
lattice, whose paths are all texts that were not pruned. At most MISSING clean steps in a row take nothing of what is
seen.

With one model of characters a merge is exact, because the model sees no more than these characters. With several
models it is an approximation: the weights of the mixture depend on all characters before, and merged hypotheses
continue with the weights of the best of them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.channels.edits import MAX_EDIT_CHARS
from conservator.decoders.edits.arcs import LineArcs
from conservator.experts.char_ngram.model import CharNgramMixture, code_points, find_all, mix
from conservator.experts.char_ngram.trie import Trie
from conservator.numerics import add_logs, compiled

MISSING = 2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Lattice(NamedTuple):
    """The hypotheses about a line, and the arcs between them.

    Attributes:
        places: (H,) how much of the line each hypothesis covers.
        ahead: (H,) the log of the sum over its beginnings.
        behind: (H,) the log of the sum over its ends; -inf if it was pruned.
        best: (H,) the arc into it on the best path; -1 at the root.
        starts, stops: (A,) the hypotheses that each arc joins.
        steps: (A,) the step that it takes.
        scores: (A,) its score.
        last: the hypothesis at the end of the best path.
    """

    places: Ints
    ahead: Floats
    behind: Floats
    best: Ints
    starts: Ints
    stops: Ints
    steps: Ints
    scores: Floats
    last: int

    def path(self) -> list[int]:
        """The arcs of the best path."""
        found = []
        node = self.last
        while self.best[node] >= 0:
            found.append(int(self.best[node]))
            node = int(self.starts[found[-1]])
        return found[::-1]


@dataclass(frozen=True)
class Beam:
    """How a line is searched.

    Attributes:
        width: the most hypotheses at a place.
        margin: how far below the best at its place one may be, in nats.
        scale: the weight of the prior beside the channel.
    """

    width: int = 16
    margin: float = 9.0
    scale: float = 0.9

    def search(self, mixture: CharNgramMixture, steps: LineArcs, history: str) -> Lattice:
        """The lattice of a line, given its steps and the text before it."""
        before = code_points(history[-(mixture.trie.order - 1) :])
        room = 64 * self.width * len(steps.begins)
        while True:
            found = search(
                mixture.trie,
                mixture.roots,
                mixture.weights,
                mixture.share,
                steps,
                before,
                self.width,
                self.margin,
                self.scale,
                room,
            )
            if found.last >= 0:
                return found
            room *= 2


@compiled
def search(
    trie: Trie,
    roots: Ints,
    weights: Floats,
    share: float,
    steps: LineArcs,
    before: Ints,
    width: int,
    margin: float,
    scale: float,
    room: int,
) -> Lattice:
    """Search with room for so many arcs; ``last`` is -1 if that was too little."""
    length, reach = len(steps.begins) - 2, trie.order - 1
    places, levels = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    histories, spans = np.zeros((room, reach), dtype=np.int64), np.zeros(room, dtype=np.int64)
    mixed = np.zeros((room, len(weights)))
    ahead, top = np.full(room, -np.inf), np.full(room, -np.inf)
    best, keys = np.full(room, -1, dtype=np.int64), np.zeros(room, dtype=np.int64)
    starts, stops = np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64)
    taken, scores = np.zeros(room, dtype=np.int64), np.zeros(room)
    heads, following = np.full((length + 1, MISSING + 1), -1, dtype=np.int64), np.full(room, -1, dtype=np.int64)
    highest = np.full(length + 1, -np.inf)
    behind = np.full(room, -np.inf)
    nodes, arcs = 1, 0
    ahead[0] = top[0] = highest[0] = 0.0
    histories[0, : len(before)] = before
    spans[0] = len(before)
    mixed[0] = weights
    heads[0, 0] = 0
    text, now = np.zeros(reach + MAX_EDIT_CHARS, dtype=np.int64), np.zeros(len(weights))
    first, firsts = np.zeros((len(roots), trie.order), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    later, laters = first.copy(), firsts.copy()  # contexts of the first character of a step, and of those after it
    alive = np.zeros(room, dtype=np.int64)
    for place in range(length + 1):
        for level in range(MISSING + 1):
            count = 0
            node = heads[place, level]
            while node >= 0:
                if top[node] >= highest[place] - margin:
                    alive[count] = node
                    count += 1
                node = following[node]
            if count > width:
                order = np.argsort(-top[alive[:count]])
                alive[:width] = alive[:count][order[:width]]
                count = width
            for number in range(count):
                node = alive[number]
                find_all(trie, roots, histories[node, : spans[node]], first, firsts)
                for step in range(steps.begins[place], steps.begins[place + 1]):
                    if steps.widths[step] == 0 and level == MISSING:
                        continue
                    goal = place + steps.widths[step]
                    if top[node] + steps.chances[step] < highest[goal] - margin:
                        continue
                    size = steps.sizes[step]
                    span = spans[node]
                    text[:span] = histories[node, :span]
                    now[:] = mixed[node]
                    said = 0.0
                    for one in range(size):
                        character = steps.texts[step, one]
                        if one == 0:
                            said += np.log(mix(trie, first, firsts, weights, share, character, now))
                        else:
                            begin = max(0, span + one - reach)
                            find_all(trie, roots, text[begin : span + one], later, laters)
                            said += np.log(mix(trie, later, laters, weights, share, character, now))
                        text[span + one] = character
                    score = steps.chances[step] + scale * said
                    reached = top[node] + score
                    if reached < highest[goal] - margin:
                        continue
                    if nodes >= room or arcs >= room:
                        return Lattice(places, ahead, behind, best, starts, stops, taken, scores, -1)
                    stage = level + 1 if steps.widths[step] == 0 else 0
                    left = max(0, span + size - reach)
                    key = np.int64(0)
                    for one in range(left, span + size):
                        key = (key * 1000003) ^ text[one]
                    other = heads[goal, stage]
                    while other >= 0 and not (
                        keys[other] == key and same(histories[other], spans[other], text[left : span + size])
                    ):
                        other = following[other]
                    if other < 0:
                        other = nodes
                        nodes += 1
                        places[other], levels[other], keys[other] = goal, stage, key
                        spans[other] = span + size - left
                        histories[other, : spans[other]] = text[left : span + size]
                        following[other] = heads[goal, stage]
                        heads[goal, stage] = other
                    starts[arcs], stops[arcs], taken[arcs], scores[arcs] = node, other, step, score
                    ahead[other] = add_logs(ahead[other], ahead[node] + score)
                    if reached > top[other]:
                        top[other] = reached
                        best[other] = arcs
                        mixed[other] = now
                        highest[goal] = max(highest[goal], reached)
                    arcs += 1
    last = -1
    for level in range(MISSING + 1):
        node = heads[length, level]
        while node >= 0:
            behind[node] = 0.0
            if last < 0 or top[node] > top[last]:
                last = node
            node = following[node]
    for arc in range(arcs - 1, -1, -1):
        behind[starts[arc]] = add_logs(behind[starts[arc]], scores[arc] + behind[stops[arc]])
    return Lattice(
        places[:nodes],
        ahead[:nodes],
        behind[:nodes],
        best[:nodes],
        starts[:arcs],
        stops[:arcs],
        taken[:arcs],
        scores[:arcs],
        last,
    )


@compiled
def same(history: Ints, span: int, text: Ints) -> bool:
    """Whether a history is a text."""
    equal = span == len(text)
    for one in range(span if equal else 0):
        equal &= history[one] == text[one]
    return equal
