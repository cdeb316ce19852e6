"""Rescore a text with causal experts: the posterior of the joint candidates of each span."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import LogPotentials, PrefixTree, SearchLimits, search
from conservator.decoders.rescoring.spans import Chunk, Span, find_chunks, find_spans
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert


@dataclass(frozen=True)
class RescoreConfig:
    """Iterations of rescoring."""

    iterations: int = 2  # iterations: over the text [untuned]
    final_probability: float = 0.99  # probability: a candidate with at least this is not rescored again [untuned]
    before_change_bytes: int = 16  # bytes: open bytes this far before a changed byte are rescored again [untuned]
    after_change_bytes: int = 48  # bytes: open bytes this far after a changed byte are rescored again [untuned]


CONFIG = RescoreConfig()
ITERATIONS = CONFIG.iterations

CandidateProbs = dict[bytes, float]  # candidate -> its probability
CandidateScores = dict[bytes, float]  # candidate -> its unnormalised log-probability


@dataclass(frozen=True)
class SpanPosterior:
    """A span and the posterior of its candidates, the most probable first; positions are those of the whole text."""

    span: Span
    candidates: CandidateProbs

    def marginal(self, position: int, byte: int) -> float:
        """Return the probability of a byte at an open position."""
        index = self.span.positions.index(position)
        return sum(probability for candidate, probability in self.candidates.items() if candidate[index] == byte)


@dataclass(frozen=True)
class Rescored:
    """A rescored text.

    Attributes:
        text: with the most probable candidate of each span.
        confidence: position -> the posterior probability of its byte, for each open position that was rescored.
        posteriors: position -> the posterior of the span in which it was rescored last.
    """

    text: bytes
    confidence: dict[int, float]
    posteriors: dict[int, SpanPosterior]

    def candidates_of(self, start: int, stop: int) -> CandidateProbs:
        """Return the posterior of the bytes from ``start`` to ``stop``; empty unless they belong to one span."""
        posterior = self.posteriors.get(start)
        if posterior is None or any(self.posteriors.get(position) is not posterior for position in range(start, stop)):
            return {}
        first = posterior.span.positions.index(start)
        marginals: CandidateProbs = {}
        for candidate, probability in posterior.candidates.items():
            part = candidate[first : first + stop - start]
            marginals[part] = marginals.get(part, 0.0) + probability
        return dict(sorted(marginals.items(), key=lambda item: (-item[1], item[0])))


def rescore(
    experts: Sequence[CausalExpert],
    weights: Floats,
    text: bytes,
    positions: Ints,
    log_potentials: LogPotentials,
    meter: Meter,
    limits: SearchLimits | None = None,
) -> Rescored:
    """Choose the open bytes of a text again, as joint candidates of spans.

    The score of a candidate is that of the paper's sequence-level pool: the log-potentials of its bytes by masked
    experts, and for each causal expert, times its weight, the log-probability of the span with the candidate inserted.
    The right context enters the score, because the expert must predict it.

        score(candidate) = sum_i lambda_i log q_i(span with the candidate | text before it) + sum of log-potentials

    Within a span, the posterior over candidates is exact up to the limits of the search. Other spans have their current
    text. Spans that are still uncertain, or close to a change, are rescored in a second iteration.

    Args:
        experts: m causal experts.
        weights: (L, m) lambda, the weight of each expert at each byte of the text.
        text: with the best guess so far at open bytes; valid UTF-8.
        positions: (n,) the positions of open bytes, ascending.
        log_potentials: for each open position.
        meter: counts evaluated tokens, and reports progress.
        limits: of the search; None for the defaults of ``SearchLimits``.
    """
    limits = limits or SearchLimits()
    max_bytes = min((expert.spec.max_length for expert in experts if expert.spec.max_length is not None), default=None)
    posteriors: dict[int, SpanPosterior] = {}
    confidence: dict[int, float] = {}
    data, remaining = bytearray(text), positions
    for _ in meter.steps(range(CONFIG.iterations)):
        again: list[Ints] = [positions[:0]]
        for chunk in meter.steps(find_chunks(remaining, bytes(data), max_bytes)):
            for posterior in rescore_chunk(experts, weights, bytes(data), chunk, log_potentials, limits, meter):
                best, probability = next(iter(posterior.candidates.items()))
                if probability < CONFIG.final_probability:
                    again.append(np.array(posterior.span.positions))
                for index, position in enumerate(posterior.span.positions):
                    posteriors[position] = posterior
                    confidence[position] = posterior.marginal(position, best[index])
                    if data[position] != best[index]:
                        data[position] = best[index]
                        near = positions >= position - CONFIG.before_change_bytes
                        near &= positions <= position + CONFIG.after_change_bytes
                        again.append(positions[near])
        remaining = np.unique(np.concatenate(again))
    return Rescored(bytes(data), confidence, posteriors)


def rescore_chunk(
    experts: Sequence[CausalExpert],
    weights: Floats,
    text: bytes,
    chunk: Chunk,
    log_potentials: LogPotentials,
    limits: SearchLimits,
    meter: Meter,
) -> list[SpanPosterior]:
    """Return the posterior of the candidates of each span of a chunk, given the rest of the text.

    Every expert searches for candidates; with several experts, each scores the candidates of all. A chunk that an
    expert cannot tokenize is left unchanged.
    """
    part = text[chunk.begin : chunk.end]
    moved = {position - chunk.begin: log_potentials[position] for position in (chunk.positions + chunk.begin).tolist()}
    try:
        trees = [PrefixTree(expert, part, meter) for expert in experts]
    except ConservatorError:  # for example, a control character for which a model has no token
        return []
    boundaries = trees[0].boundaries
    for tree in trees[1:]:
        boundaries = np.intersect1d(boundaries, tree.boundaries)
    spans = find_spans(chunk.positions, part, boundaries)
    by_expert = [search(tree, part, spans, moved, limits) for tree in trees]
    if len(trees) == 1:
        scored = by_expert[0]
    else:
        scored = score_jointly(trees, weights[chunk.begin : chunk.end], part, spans, by_expert, moved)
    posteriors = []
    for span, scores in zip(spans, scored, strict=True):
        allowed = {candidate: score for candidate, score in scores.items() if is_utf8(span.insert(part, candidate))}
        if allowed:
            positions = tuple(position + chunk.begin for position in span.positions)
            in_text = Span(span.start + chunk.begin, span.end + chunk.begin, positions)
            posteriors.append(SpanPosterior(in_text, normalise(allowed)))
    return posteriors


def score_jointly(
    trees: Sequence[PrefixTree],
    weights: Floats,
    text: bytes,
    spans: Sequence[Span],
    by_expert: Sequence[Sequence[CandidateScores]],
    log_potentials: LogPotentials,
) -> list[CandidateScores]:
    """Return the scores, by all experts with their weights, of the candidates of all experts."""
    candidates = [sorted(set().union(*span_scores)) for span_scores in zip(*by_expert, strict=True)]
    jobs = [(number, candidate) for number, choices in enumerate(candidates) for candidate in choices]
    jobs = [(number, candidate) for number, candidate in jobs if is_utf8(spans[number].insert(text, candidate))]
    texts = [(spans[number], spans[number].insert(text, candidate)) for number, candidate in jobs]
    span_weights = np.array([weights[span.start : span.end].mean(axis=0) for span in spans]).reshape(len(spans), -1)
    scored: list[CandidateScores] = [{} for _ in spans]
    rows = np.stack([score_texts(tree, texts) for tree in trees])
    for (number, candidate), row in zip(jobs, rows.T, strict=True):
        pairs = zip(spans[number].positions, candidate, strict=True)
        potential = sum(log_potentials[position][byte] for position, byte in pairs)
        scored[number][candidate] = float(span_weights[number] @ row + potential)
    return scored


def normalise(scores: CandidateScores) -> CandidateProbs:
    """Return the candidates with their probabilities, the most probable first."""
    total = np.logaddexp.reduce(list(scores.values()))
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return {candidate: float(np.exp(score - total)) for candidate, score in ordered}


def is_utf8(data: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
