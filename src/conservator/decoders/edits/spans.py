"""The uncertain spans of a line, and the candidate clean texts that a lattice has for each of them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.beam import LineLattice


@dataclass(frozen=True)
class UncertainSpanConfig:
    """Which spans are uncertain, and how many texts each of them has."""

    min_space_keep_prob: float = 0.999  # probability: a space that ends a span is kept, with none missing [untuned]
    min_keep_prob: float = 0.98  # probability: a character kept with at least this is not uncertain [untuned]
    prune_nats: float = 14.0  # nats: edges with a lower log-probability are ignored [untuned]
    max_texts: int = 6  # texts: per span [LOG: ocr-correction]
    max_score_gap_nats: float = 5.0  # nats: texts this far below the best are dropped [LOG: ocr-correction]


CONFIG = UncertainSpanConfig()


class SpanText(NamedTuple):
    """A candidate clean text of a span.

    Attributes:
        text: the text.
        arcs: the arcs of its most likely path.
        score: its log-probability, summed over the texts before and after it.
    """

    text: str
    arcs: tuple[int, ...]
    score: float


class UncertainSpan(NamedTuple):
    """A span of a line between confident spaces, with its most likely clean texts, the best first.

    The observed text is one of them, unless the search has pruned it.
    """

    start: int
    stop: int
    alternatives: tuple[SpanText, ...]


def find_uncertain_spans(line: str, lattice: LineLattice, arcs: LineArcs) -> list[UncertainSpan]:
    """Return the spans of a line that contain a character with a low probability of being kept."""
    log_prob = lattice.log_posteriors
    likely = np.flatnonzero(log_prob > -CONFIG.prune_nats)
    keep_prob, missing_prob = np.zeros(len(line) + 1), np.zeros(len(line) + 1)
    for total, selected in ((keep_prob, arcs.keep), (missing_prob, arcs.widths == 0)):
        edges = likely[selected[lattice.arcs[likely]]]
        np.add.at(total, lattice.positions[lattice.sources[edges]], np.exp(log_prob[edges]))
    max_missing = 1 - CONFIG.min_space_keep_prob
    boundaries = [
        position
        for position, character in enumerate(line)
        if character == " "
        and keep_prob[position] > CONFIG.min_space_keep_prob
        and missing_prob[position : position + 2].max() < max_missing
    ]
    spans = []
    for start, stop in pairwise(sorted({0, *boundaries, len(line)})):
        missing = missing_prob[start : stop + 1].max()
        if keep_prob[start:stop].min() < CONFIG.min_keep_prob or missing > 1 - CONFIG.min_keep_prob:
            spans.append(UncertainSpan(start, stop, best_texts(line, lattice, arcs, likely, start, stop)))
    return spans


def best_texts(
    line: str, lattice: LineLattice, arcs: LineArcs, edges: NDArray[np.int64], start: int, stop: int
) -> tuple[SpanText, ...]:
    """Return the most likely clean texts of a span, and the observed text; edges are in the order of the search."""
    positions = lattice.positions
    inside = (positions[lattice.sources[edges]] >= start) & (positions[lattice.targets[edges]] <= stop)
    ends_line = stop == len(line)
    if not ends_line:  # characters missing before the space at the end belong to the next span
        inside &= positions[lattice.sources[edges]] < stop
    prefixes: dict[int, dict[str, SpanText]] = {}  # hypothesis -> the texts up to it
    text_of = {}
    current, texts = -1, []
    for edge in edges[inside].tolist():
        node, arc = int(lattice.sources[edge]), int(lattice.arcs[edge])
        if node != current:
            if positions[node] == start and node not in prefixes and not (start and _is_missing(lattice, arcs, node)):
                prefixes[node] = {"": SpanText("", (), float(lattice.alpha[node]))}
            current, texts = node, _most_likely(prefixes.get(node, {}))
        if arc not in text_of:
            text_of[arc] = "".join(map(chr, arcs.texts[arc, : arcs.lengths[arc]].tolist()))
        target = prefixes.setdefault(int(lattice.targets[edge]), {})
        for prefix in texts:
            score = prefix.score + float(lattice.scores[edge])
            _add(target, SpanText(prefix.text + text_of[arc], (*prefix.arcs, arc), score))
    complete: dict[str, SpanText] = {}
    for node, node_texts in prefixes.items():
        if positions[node] == stop:
            log_suffix = float((0 if ends_line else lattice.beta[node]) - lattice.beta[0])
            for candidate in node_texts.values():
                _add(complete, candidate._replace(score=candidate.score + log_suffix))
    ranked = _most_likely(complete)
    best = [candidate for candidate in ranked if candidate.score >= ranked[0].score - CONFIG.max_score_gap_nats]
    observed = complete.get(line[start:stop])
    return (*best, *([observed] if observed is not None and observed not in best else []))


def _is_missing(lattice: LineLattice, arcs: LineArcs, node: int) -> bool:
    """Whether the last arc to a hypothesis inserts a missing character."""
    return bool(arcs.widths[lattice.arcs[lattice.best_edges[node]]] == 0)


def _most_likely(texts: dict[str, SpanText]) -> list[SpanText]:
    """Return the most likely texts, the best first."""
    return sorted(texts.values(), key=lambda candidate: (-candidate.score, candidate.text))[: CONFIG.max_texts]


def _add(texts: dict[str, SpanText], candidate: SpanText) -> None:
    """Add a path of a text: its probability is added, and the arcs are those of the more likely path."""
    other = texts.get(candidate.text)
    if other is not None:
        more_likely = candidate if candidate.score > other.score else other
        candidate = more_likely._replace(score=float(np.logaddexp(candidate.score, other.score)))
    texts[candidate.text] = candidate
