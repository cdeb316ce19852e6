"""The best joint candidates of a lost span: a beam search that predicts each token given the tokens before it."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Observation
from conservator.decoders.text import DecodedText, apply_likelihood, close_at_cuts
from conservator.errors import ConservatorError
from conservator.experts import PAD, Context, Team
from conservator.field import Inferred
from conservator.numerics import runs
from conservator.vocabularies import Constraint


@dataclass(frozen=True)
class AlternativesConfig:
    """Limits of the beam search."""

    context_positions: int = 64  # positions: context on either side of a lost span [untuned]
    max_span_positions: int = 64  # positions: a longer span has no candidates, none of them would be likely [untuned]
    prune_nats: float = 8.0  # nats: hypotheses this far below the best are pruned [untuned]
    min_context_confidence: float = 0.5  # probability: less confident tokens of other spans are hidden [untuned]
    min_width: int = 4  # hypotheses: smallest width of the beam [untuned]


CONFIG = AlternativesConfig()
# positions: the largest window that is evaluated for a lost span [definition]
MAX_WINDOW_POSITIONS = 2 * CONFIG.context_positions + CONFIG.max_span_positions

Range = tuple[int, int]


@dataclass(frozen=True)
class Candidate:
    """A candidate text for a lost span.

    Attributes:
        data: the text.
        probability: the joint probability of its tokens, given the visible text.
    """

    data: bytes
    probability: float


@dataclass(frozen=True)
class BeamHypothesis:
    """The first tokens of a candidate: their log-probability, and the set of constraint states after them, as bits."""

    tokens: tuple[int, ...]
    score: float
    states: int


def best_candidates(
    team: Team, observation: Observation, inferred: Inferred, decoded: DecodedText, count: int
) -> list[tuple[Candidate, ...]]:
    """Return ``count`` candidates of each run of changed tokens: the decoded one, then the most likely others.

        p(x_1 ... x_n | visible) = prod_k p(x_k | visible, x_1 ... x_{k-1}),   with a new prediction for each factor

    The runs are those of ``changed_tokens``. In other runs, confident decoded tokens are visible, and the others are
    hidden. The text with a candidate inserted can still satisfy the constraint. A run longer than
    ``max_span_positions`` has no candidates.

    Args:
        team: m experts.
        observation: the document (1, L), without uncertain tokens.
        inferred: its inferred composition.
        decoded: its decoded text.
        count: the number of candidates of each span.
    """
    constraint, log_probs = team.vocabulary.constraint, decoded.log_probs
    if constraint is None:
        raise ConservatorError("alternatives need experts over bytes or characters; this vocabulary has no text")
    changed, row = changed_tokens(observation, decoded), np.cumsum(observation.lost[0].numpy()) - 1
    spans, visible = runs(changed), np.where(changed, team.vocabulary.mask, decoded.tokens)
    forward, backward = constraint.reachable(close_at_cuts(constraint, visible, observation))
    short = [span for span in spans if span[1] - span[0] <= CONFIG.max_span_positions]
    beams = {span: [BeamHypothesis((), 0.0, int(forward[span[0]]))] for span in short}
    uncertain = decoded.confidence < CONFIG.min_context_confidence
    context = np.where(uncertain, team.vocabulary.mask, decoded.tokens)
    predictor = BeamPredictor(team, observation, inferred, context)
    for step in team.meter.steps(range(max((stop - start for start, stop in short), default=0))):
        active = [span for span in short if step < span[1] - span[0]]
        single = [span for span in active if span[1] - span[0] == 1]
        predicted = {span: log_probs[row[span[0]]][None].double().numpy() for span in single}
        predicted |= predictor.predict({span: beams[span] for span in active if span not in predicted})
        for start, stop in active:
            allowed = int(backward[start + step + 1])
            current = tuple(decoded.tokens[start : start + step + 1].tolist())
            width = max(count, CONFIG.min_width)
            extended = extend_beam(beams[start, stop], predicted[start, stop], allowed, width, constraint, current)
            min_score = max(hypothesis.score for hypothesis in extended) - CONFIG.prune_nats
            complete = start + step + 1 == stop
            beams[start, stop] = [
                hypothesis
                for hypothesis in extended
                if complete or hypothesis.tokens == current or hypothesis.score > min_score
            ]
    decode = team.vocabulary.decode
    return [
        tuple(
            Candidate(decode(np.array(hypothesis.tokens)), float(np.exp(hypothesis.score)))
            for hypothesis in beams.get(span, [])[:count]
        )
        for span in spans
    ]


def changed_tokens(observation: Observation, decoded: DecodedText) -> NDArray[np.bool_]:
    """Return (L,) True where a decoded token differs from the observed one; always where nothing was observed."""
    changed: NDArray[np.bool_] = decoded.tokens != observation.tokens[0].numpy()
    return changed


def extend_beam(
    beam: list[BeamHypothesis],
    log_probs: NDArray[np.float64],
    allowed: int,
    width: int,
    constraint: Constraint,
    current: tuple[int, ...],
) -> list[BeamHypothesis]:
    """Append a token to each hypothesis; keep the hypothesis of the decoded text and the most likely others.

    A token after which no text is allowed gets probability 0, and the other probabilities are renormalised.

    Args:
        beam: k hypotheses.
        log_probs: (k, V) the predictions of the next token after each.
        allowed: the set of states, as bits, from which the following tokens are allowed.
        width: the number of hypotheses to keep.
        constraint: the constraint of the vocabulary.
        current: the first tokens of the span in the decoded text; this hypothesis comes first.
    """
    extended = []
    for hypothesis, rows in zip(beam, log_probs, strict=True):
        states = constraint.next_states(hypothesis.states) & allowed
        scores = np.where(states > 0, rows, -np.inf)
        if not np.isfinite(scores).any():  # no token continues this hypothesis
            continue
        scores = hypothesis.score + scores - np.logaddexp.reduce(scores)
        likely = np.argsort(-scores, kind="stable")[:width].tolist()
        is_current = hypothesis.tokens == current[:-1]
        for token in dict.fromkeys([current[-1], *likely] if is_current else likely):
            if np.isfinite(scores[token]):
                tokens = (*hypothesis.tokens, token)
                extended.append(BeamHypothesis(tokens, float(scores[token]), int(states[token])))
    extended.sort(key=lambda hypothesis: (hypothesis.tokens != current, -hypothesis.score, hypothesis.tokens))
    return extended[:width]


@dataclass(frozen=True)
class BeamPredictor:
    """Predict the next token of each hypothesis from the text around its span.

    Attributes:
        team: m experts.
        observation: the document (1, L).
        inferred: its inferred composition.
        context: (L,) tokens that are known or were decoded with confidence, else the mask.
    """

    team: Team
    observation: Observation
    inferred: Inferred
    context: NDArray[np.int64]

    def predict(self, beams: dict[Range, list[BeamHypothesis]]) -> dict[Range, NDArray[np.float64]]:
        """Return the log-probabilities (k, V) of the next token of each of the k hypotheses of each span."""
        jobs = [(span, hypothesis) for span, beam in beams.items() for hypothesis in beam]
        log_probs: dict[Range, list[NDArray[np.float64]]] = {span: [] for span in beams}
        size = min(MAX_WINDOW_POSITIONS, self.team.context)
        batch_size = self.team.max_batch_size(size)
        for begin in range(0, len(jobs), batch_size):
            batch = jobs[begin : begin + batch_size]
            for (span, _), row in zip(batch, self._predict_batch(batch, size), strict=True):
                log_probs[span].append(row)
        return {span: np.stack(rows) for span, rows in log_probs.items()}

    def _predict_batch(self, jobs: list[tuple[Range, BeamHypothesis]], size: int) -> NDArray[np.float64]:
        """Return the log-probabilities of a batch of hypotheses, from windows of at most ``size`` positions."""
        mask, context = self.team.vocabulary.mask, self.context
        rows = torch.full((len(jobs), size), PAD)
        columns, positions, starts = [], [], []
        for line, ((first, last), hypothesis) in enumerate(jobs):
            position = first + len(hypothesis.tokens)
            # As much of the text as fits, on both sides of the predicted position.
            start = max(0, min(max(first - CONFIG.context_positions, position - size // 2), len(context) - size))
            stop = min(len(context), last + CONFIG.context_positions, start + size)
            text = context[start:stop].copy()
            text[max(first - start, 0) : last - start] = mask
            filled = [token for at, token in enumerate(hypothesis.tokens, first) if at >= start]
            text[position - start - len(filled) : position - start] = filled
            rows[line, : stop - start] = torch.from_numpy(text)
            columns.append(position - start)
            positions.append(position)
            starts.append(start)
        rows = rows[:, : int((rows != PAD).sum(-1).max())]
        hidden, window_start = rows == mask, torch.tensor(starts)
        if self.observation.excerpt is not None:
            window_start = self.observation.excerpt.positions[window_start]
        at = torch.arange(len(jobs)), torch.tensor(columns)
        active = self.inferred.composition.active_experts()[0, positions]
        windows = Context(rows.masked_fill(hidden, 0), hidden, start=window_start)
        predictions = self.team.predict(windows, at, active=active).float()
        sequence = torch.zeros(len(jobs), dtype=torch.long)
        mixed = self.inferred.composition.log_probs(predictions, sequence, torch.tensor(positions))
        return apply_likelihood(self.observation, mixed, sequence, torch.tensor(positions)).double().numpy()
