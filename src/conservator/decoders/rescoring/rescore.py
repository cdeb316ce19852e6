"""Rescore a text with causal experts: the posterior of the joint candidates of each span."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby
from typing import NamedTuple

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.decoders.rescoring.score_texts import score_texts
from conservator.decoders.rescoring.search import PrefixTree, SearchLimits, search
from conservator.decoders.rescoring.slots import Draft, Slot
from conservator.decoders.rescoring.spans import ChunkLimits, ListedSpan, Span, find_listed_span, find_spans
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
    """The posterior of the texts of neighbouring slots.

    Attributes:
        slots: indices of the slots. Several slots are open bytes.
        candidates: text of the slots -> its probability, the most probable first.
    """

    slots: tuple[int, ...]
    candidates: CandidateProbs

    @property
    def best(self) -> bytes:
        """The most probable candidate."""
        return next(iter(self.candidates))

    def part(self, candidate: bytes, slot: int) -> bytes:
        """Return the text of one slot in a candidate."""
        index = self.slots.index(slot)
        return candidate if len(self.slots) == 1 else candidate[index : index + 1]

    def marginal(self, slot: int, data: bytes) -> float:
        """Return the probability of the text ``data`` of a slot."""
        return sum(probability for text, probability in self.candidates.items() if self.part(text, slot) == data)


@dataclass(frozen=True)
class Rescored:
    """A rescored text.

    Attributes:
        draft: the slots with their most probable texts.
        posteriors: index of a slot -> the posterior of the last time that it was rescored.
    """

    draft: Draft
    posteriors: dict[int, SpanPosterior]

    @cached_property
    def confidence(self) -> dict[int, float]:
        """Index of a slot -> the probability of its text, for each slot that was rescored."""
        return {slot: posterior.marginal(slot, self.draft.current[slot]) for slot, posterior in self.posteriors.items()}

    def candidates_of(self, slots: Sequence[int]) -> CandidateProbs:
        """Return the posterior of the text of adjacent slots; empty unless they were rescored together."""
        posterior = self.posteriors.get(slots[0])
        if posterior is None or any(self.posteriors.get(slot) is not posterior for slot in slots):
            return {}
        marginals: CandidateProbs = {}
        for candidate, probability in posterior.candidates.items():
            part = b"".join(posterior.part(candidate, slot) for slot in slots)
            marginals[part] = marginals.get(part, 0.0) + probability
        return dict(sorted(marginals.items(), key=lambda item: (-item[1], item[0])))


def rescore(
    experts: Sequence[CausalExpert],
    weights: Floats,
    text: bytes,
    slots: Sequence[Slot],
    meter: Meter,
    limits: SearchLimits | None = None,
    expert_weight: float = 1.0,
) -> Rescored:
    """Choose the texts of the slots of a text again, as joint candidates of spans.

    The score of a candidate is that of the paper's sequence-level pool: the log-scores of its slots by the channel and
    the other experts, and for each causal expert, times its weight, the log-probability of the span with the candidate
    inserted. The right context enters the score, because the expert must predict it.

        score(candidate) = w sum_i lambda_i log q_i(span with the candidate | text before it) + sum of log-scores

    Within a span, the posterior over candidates is exact up to the limits of the search for open bytes. Other spans
    have their current text. Spans that are still uncertain, or close to a change, are rescored in a second iteration. A
    chunk that an expert cannot tokenize is left unchanged.

    Args:
        experts: m causal experts.
        weights: (L, m) lambda, the weight of each expert at each byte of the text.
        text: with the best guess so far in its slots; valid UTF-8.
        slots: in order and disjoint.
        meter: counts evaluated tokens, and reports progress.
        limits: of the search; None for the defaults of ``SearchLimits``.
        expert_weight: w, the weight of the causal experts relative to the log-scores of the slots.
    """
    max_bytes = min((expert.spec.max_length for expert in experts if expert.spec.max_length is not None), default=None)
    chunk_limits, limits = ChunkLimits.of(max_bytes), limits or SearchLimits()
    posteriors: dict[int, SpanPosterior] = {}
    draft, remaining = Draft.of(text, slots), list(range(len(slots)))
    for _ in meter.steps(range(CONFIG.iterations)):
        again: set[int] = set()
        for group in meter.steps(chunk_limits.group(draft, remaining)):
            begin, end = chunk_limits.range_around(draft, group)
            part = draft.text[begin:end]
            try:
                trees = [PrefixTree(expert, part, meter) for expert in experts]
            except ConservatorError:  # for example, a control character for which a model has no token
                continue
            scorer = ChunkScorer(draft, begin, part, trees, draft.rows(weights)[begin:end], limits, expert_weight)
            choices: dict[int, bytes] = {}
            for posterior in scorer.posteriors(group):
                if posterior.candidates[posterior.best] < CONFIG.final_probability:
                    again.update(posterior.slots)
                for slot in posterior.slots:
                    posteriors[slot] = posterior
                    choices[slot] = posterior.part(posterior.best, slot)
            for slot in choices:
                if choices[slot] != draft.current[slot]:
                    first, last = draft.starts[slot] - CONFIG.before_change_bytes, draft.stops[slot] - 1
                    again.update(draft.within(first, last + CONFIG.after_change_bytes + 1))
            draft = draft.replace(choices)
        remaining = sorted(again)
    return Rescored(draft, posteriors)


def choose_listed(text: bytes, slots: Sequence[Slot]) -> Rescored:
    """Choose the candidates of slots by their log-scores alone."""
    posteriors = {index: SpanPosterior((index,), normalise(dict(slot.candidates))) for index, slot in enumerate(slots)}
    draft = Draft.of(text, slots).replace({index: posterior.best for index, posterior in posteriors.items()})
    return Rescored(draft, posteriors)


class ScoredSpan(NamedTuple):
    """Neighbouring slots, and candidate -> its log-score."""

    slots: tuple[int, ...]
    scores: CandidateScores


@dataclass(frozen=True)
class ChunkScorer:
    """Scores the candidates of the slots of a chunk, given the rest of the text.

    Attributes:
        draft: the whole text.
        begin: start of the chunk in it.
        text: the chunk.
        trees: the chunk, as each of the m causal experts reads it.
        weights: (len(text), m) weight of each expert.
        limits: of the search.
        expert_weight: weight of the causal experts relative to the log-scores of the slots.
    """

    draft: Draft
    begin: int
    text: bytes
    trees: Sequence[PrefixTree]
    weights: Floats
    limits: SearchLimits
    expert_weight: float

    @cached_property
    def boundaries(self) -> Ints:
        """The token boundaries that all experts share."""
        return reduce(np.intersect1d, [tree.boundaries for tree in self.trees])

    def posteriors(self, slots: Sequence[int]) -> list[SpanPosterior]:
        """Return the posterior of the candidates of each span, given indices of slots."""
        scored: list[ScoredSpan] = []
        for is_open, group in groupby(slots, lambda slot: self.draft.slots[slot].is_open_byte):
            members = list(group)
            scored += self.score_open(members) if is_open else self.score_listed(members)
        return [SpanPosterior(span.slots, normalise(span.scores)) for span in scored if span.scores]

    def score_open(self, slots: Sequence[int]) -> list[ScoredSpan]:
        """Return the scores of texts of open bytes.

        Every expert searches for texts; with several experts, each scores the texts of all.
        """
        positions = self.draft.starts[list(slots)] - self.begin
        potentials = {
            position: self.draft.slots[slot].potential / self.expert_weight  # the search gives the experts weight 1
            for position, slot in zip(positions.tolist(), slots, strict=True)
        }
        spans = find_spans(positions, self.text, self.boundaries)
        remaining = iter(slots)
        members = [tuple(next(remaining) for _ in span.positions) for span in spans]
        found_by = [search(tree, self.text, spans, potentials, self.limits) for tree in self.trees]
        candidates = [
            [candidate for candidate in sorted(set().union(*texts)) if is_utf8(span.insert(self.text, candidate))]
            for span, *texts in zip(spans, *found_by, strict=True)
        ]
        if len(self.trees) == 1:
            return [
                ScoredSpan(inside, {text: self.expert_weight * scores[text] for text in texts})
                for inside, texts, scores in zip(members, candidates, found_by[0], strict=True)
            ]
        prior_scores = [
            {text: self.expert_weight * potential_of(text, span, potentials) for text in texts}
            for span, texts in zip(spans, candidates, strict=True)
        ]
        return self.score_jointly(spans, members, prior_scores)

    def score_listed(self, slots: Sequence[int]) -> list[ScoredSpan]:
        """Return the scores of listed candidates."""
        prior_scores = [self.draft.slots[slot].candidates for slot in slots]
        starts, stops = self.draft.starts - self.begin, self.draft.stops - self.begin
        spans = [
            find_listed_span(int(starts[slot]), int(stops[slot]), candidates, self.text, self.boundaries)
            for slot, candidates in zip(slots, prior_scores, strict=True)
        ]
        return self.score_jointly(spans, [(slot,) for slot in slots], prior_scores)

    def score_jointly(
        self,
        spans: Sequence[Span | ListedSpan],
        members: Sequence[tuple[int, ...]],
        prior_scores: Sequence[Mapping[bytes, float]],
    ) -> list[ScoredSpan]:
        """Return the scores, by all experts with their weights, of given candidates of spans.

        Args:
            spans: k spans of the chunk.
            members: indices of the slots of each span.
            prior_scores: candidate -> its score without the causal experts, for each span.
        """
        texts = [
            (span, span.insert(self.text, candidate))
            for span, candidates in zip(spans, prior_scores, strict=True)
            for candidate in candidates
        ]
        rows = iter(np.stack([score_texts(tree, texts) for tree in self.trees], axis=1))
        scored = []
        for span, slots, candidates in zip(spans, members, prior_scores, strict=True):
            span_weights = self.expert_weight * self.weights[span.start : span.end].mean(axis=0)
            scores = {candidate: float(span_weights @ next(rows)) + prior for candidate, prior in candidates.items()}
            scored.append(ScoredSpan(slots, scores))
        return scored


def potential_of(candidate: bytes, span: Span, potentials: Mapping[int, Floats]) -> float:
    """Return the sum of the potentials of the open bytes of a candidate."""
    return float(sum(potentials[position][byte] for position, byte in zip(span.positions, candidate, strict=True)))


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
