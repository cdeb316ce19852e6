"""A beam search over the clean texts of an observed line.

A hypothesis is a clean prefix of the line. Its score is the log-probability of the channel plus ``lm_weight`` times
that of the prior. Hypotheses at the same position that end in the same ``order - 1`` characters are merged, so the beam
is a lattice, whose paths are all texts that were not pruned. At most MAX_MISSING consecutive arcs have width 0: they
insert missing characters.

With one character n-gram model a merge is exact, because the model depends on these characters alone. With several
models it is an approximation: the weights of the mixture depend on all earlier characters, and merged hypotheses
continue with the weights of the best of them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.channels.edits import MAX_EDIT_CHARS
from conservator.decoders.edits.arcs import LineArcs
from conservator.experts.char_ngram.model import CharNgramMixture, code_points, find_all_contexts, mix
from conservator.experts.char_ngram.trie import Trie
from conservator.lattice import Lattice
from conservator.numerics import compiled

MAX_MISSING = 2  # arcs: in a row that insert missing characters [untuned]
_HASH_FACTOR = 1000003  # factor: of the hash of a history [definition]


class Hypotheses(NamedTuple):
    """The hypotheses of a line as the search leaves them; the attributes are those of ``LineLattice``."""

    positions: Ints
    best_edges: Ints
    sources: Ints
    targets: Ints
    arcs: Ints
    scores: Floats
    last: int


@dataclass(frozen=True)
class LineLattice(Lattice):
    """The hypotheses (nodes) of a line, and the edges between them.

    Attributes:
        positions: (N,) the number of observed characters that each hypothesis covers.
        best_edges: (N,) the edge into it on the best path; -1 at the root.
        arcs: (E,) the index of the arc of each edge in ``LineArcs``.
        last: the hypothesis at the end of the best path.
    """

    positions: Ints
    best_edges: Ints
    arcs: Ints
    last: int

    @classmethod
    def of(cls, hypotheses: Hypotheses) -> "LineLattice":
        """Return the lattice of the hypotheses; those at the end of the line are final."""
        final = np.flatnonzero(hypotheses.positions == hypotheses.positions[hypotheses.last])
        return cls(
            len(hypotheses.positions),
            hypotheses.sources,
            hypotheses.targets,
            hypotheses.scores,
            final,
            hypotheses.positions,
            hypotheses.best_edges,
            hypotheses.arcs,
            hypotheses.last,
        )

    def best_path(self) -> list[int]:
        """Return the edges of the best path."""
        edges = []
        node = self.last
        while self.best_edges[node] >= 0:
            edges.append(int(self.best_edges[node]))
            node = int(self.sources[edges[-1]])
        return edges[::-1]


@dataclass(frozen=True)
class Beam:
    """Configuration of the beam search.

    Attributes:
        width: the largest number of hypotheses per position.
        prune_nats: hypotheses this far below the best of their position are pruned.
        lm_weight: the weight of the prior relative to the channel.
    """

    width: int = 16  # hypotheses: per position [LOG: ocr-correction]
    prune_nats: float = 9.0  # nats: below the best hypothesis of a position [LOG: ocr-correction]
    lm_weight: float = 0.9  # weight: of the prior; at 1 more characters are harmed [LOG: ocr-correction]

    def search(self, mixture: CharNgramMixture, arcs: LineArcs, history: str) -> LineLattice:
        """Return the lattice of a line, given its arcs and the text before it."""
        before = code_points(history[-(mixture.trie.order - 1) :])
        capacity = 64 * self.width * len(arcs.offsets)
        while True:
            hypotheses = search(
                mixture.trie,
                mixture.roots,
                mixture.weights,
                mixture.reset_prob,
                arcs,
                before,
                self.width,
                self.prune_nats,
                self.lm_weight,
                capacity,
            )
            if hypotheses.last >= 0:
                return LineLattice.of(hypotheses)
            capacity *= 2


@compiled
def search(
    trie: Trie,
    roots: Ints,
    weights: Floats,
    share: float,
    line_arcs: LineArcs,
    before: Ints,
    width: int,
    prune_nats: float,
    lm_weight: float,
    capacity: int,
) -> Hypotheses:
    """Search with memory for ``capacity`` nodes and edges; ``last`` is -1 if the search needs more."""
    length, context = len(line_arcs.offsets) - 2, trie.order - 1
    positions, levels = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
    histories = np.zeros((capacity, context), dtype=np.int64)
    history_lengths = np.zeros(capacity, dtype=np.int64)
    mixture_weights = np.zeros((capacity, len(weights)))
    best_score = np.full(capacity, -np.inf)
    best_edges, keys = np.full(capacity, -1, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
    sources, targets = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
    edge_arcs, scores = np.zeros(capacity, dtype=np.int64), np.zeros(capacity)
    # Nodes at the same position and level are a linked list.
    heads = np.full((length + 1, MAX_MISSING + 1), -1, dtype=np.int64)
    next_nodes = np.full(capacity, -1, dtype=np.int64)
    best_at = np.full(length + 1, -np.inf)
    nodes, edges = 1, 0
    best_score[0] = best_at[0] = 0.0
    histories[0, : len(before)] = before
    history_lengths[0] = len(before)
    mixture_weights[0] = weights
    heads[0, 0] = 0
    text, current_weights = np.zeros(context + MAX_EDIT_CHARS, dtype=np.int64), np.zeros(len(weights))
    # Contexts of the first character of an arc, and of its later characters.
    first = np.zeros((len(roots), trie.order), dtype=np.int64)
    first_counts = np.zeros(len(roots), dtype=np.int64)
    later, later_counts = first.copy(), first_counts.copy()
    alive = np.zeros(capacity, dtype=np.int64)
    for position in range(length + 1):
        for level in range(MAX_MISSING + 1):
            count = 0
            node = heads[position, level]
            while node >= 0:
                if best_score[node] >= best_at[position] - prune_nats:
                    alive[count] = node
                    count += 1
                node = next_nodes[node]
            if count > width:
                order = np.argsort(-best_score[alive[:count]])
                alive[:width] = alive[:count][order[:width]]
                count = width
            for number in range(count):
                node = alive[number]
                find_all_contexts(trie, roots, histories[node, : history_lengths[node]], first, first_counts)
                for arc in range(line_arcs.offsets[position], line_arcs.offsets[position + 1]):
                    if line_arcs.widths[arc] == 0 and level == MAX_MISSING:
                        continue
                    target_position = position + line_arcs.widths[arc]
                    if best_score[node] + line_arcs.log_probs[arc] < best_at[target_position] - prune_nats:
                        continue
                    size = line_arcs.lengths[arc]
                    span = history_lengths[node]
                    text[:span] = histories[node, :span]
                    current_weights[:] = mixture_weights[node]
                    log_prior = 0.0
                    for index in range(size):
                        character = line_arcs.texts[arc, index]
                        if index == 0:
                            log_prior += np.log(
                                mix(trie, first, first_counts, weights, share, character, current_weights)
                            )
                        else:
                            begin = max(0, span + index - context)
                            find_all_contexts(trie, roots, text[begin : span + index], later, later_counts)
                            log_prior += np.log(
                                mix(trie, later, later_counts, weights, share, character, current_weights)
                            )
                        text[span + index] = character
                    score = line_arcs.log_probs[arc] + lm_weight * log_prior
                    total = best_score[node] + score
                    if total < best_at[target_position] - prune_nats:
                        continue
                    if nodes >= capacity or edges >= capacity:
                        return Hypotheses(positions, best_edges, sources, targets, edge_arcs, scores, -1)
                    target_level = level + 1 if line_arcs.widths[arc] == 0 else 0
                    left = max(0, span + size - context)
                    key = np.int64(0)
                    for index in range(left, span + size):
                        key = (key * _HASH_FACTOR) ^ text[index]
                    target = heads[target_position, target_level]
                    while target >= 0 and not (
                        keys[target] == key
                        and same(histories[target], history_lengths[target], text[left : span + size])
                    ):
                        target = next_nodes[target]
                    if target < 0:
                        target = nodes
                        nodes += 1
                        positions[target], levels[target], keys[target] = target_position, target_level, key
                        history_lengths[target] = span + size - left
                        histories[target, : history_lengths[target]] = text[left : span + size]
                        next_nodes[target] = heads[target_position, target_level]
                        heads[target_position, target_level] = target
                    sources[edges], targets[edges], edge_arcs[edges], scores[edges] = node, target, arc, score
                    if total > best_score[target]:
                        best_score[target] = total
                        best_edges[target] = edges
                        mixture_weights[target] = current_weights
                        best_at[target_position] = max(best_at[target_position], total)
                    edges += 1
    last = -1
    for level in range(MAX_MISSING + 1):
        node = heads[length, level]
        while node >= 0:
            if last < 0 or best_score[node] > best_score[last]:
                last = node
            node = next_nodes[node]
    return Hypotheses(
        positions[:nodes],
        best_edges[:nodes],
        sources[:edges],
        targets[:edges],
        edge_arcs[:edges],
        scores[:edges],
        last,
    )


@compiled
def same(history: Ints, length: int, text: Ints) -> bool:
    """Whether the first ``length`` characters of a history are a text."""
    equal = length == len(text)
    for index in range(length if equal else 0):
        equal &= history[index] == text[index]
    return equal
