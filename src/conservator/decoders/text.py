"""The decoder of documents: the most likely text, given experts and channel, that the constraint allows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import CharacterMaskLikelihood, Observation, TokenDependentMaskChannel
from conservator.decoders.loss_rates import infer_loss_rates
from conservator.decoders.predict import predict
from conservator.errors import ConservatorError
from conservator.experts import Cost, OutOfTimeError, Predictions, Team
from conservator.field import Inferred
from conservator.vocabularies import Constraint

NEIGHBOUR_DISTANCE = 8  # positions: lost tokens at most this far apart are decoded one after the other [untuned]


@dataclass(frozen=True)
class TextDecoderConfig:
    """Parameters of the iterative decoder."""

    margin_positions: int = 31  # positions: context on either side after iteration 1 [LOG: sampling-the-evidence]
    min_confidence: float = 0.9  # probability: more confident tokens are filled in at once [untuned]
    chunk_positions: int = 2**14  # positions: predictions that are changed at a time [safety limit]


CONFIG = TextDecoderConfig()


@dataclass(frozen=True)
class DecodedText:
    """A decoded document, which satisfies the constraint.

    Attributes:
        tokens: (L,) the text.
        confidence: (L,) the probability of each token, given that the text is allowed; at known tokens, that of no
            error.
        log_probs: (n, V) float16, the last predictions for the n lost tokens, in their order.
        gate_weights: (L, g) the weight of each gated expert in the last prediction of each token.
        cost: network evaluations and seconds.
        not_predicted: (k,) the lost positions without a prediction, because time ran out.
        out_of_time: the stage in which time ran out; None if it did not.
        loss_rates: (V,) the inferred loss rate of each token; None if they were not inferred.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    log_probs: Tensor
    gate_weights: NDArray[np.float64]
    cost: Cost
    not_predicted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    out_of_time: str | None = None
    loss_rates: Tensor | None = None


def decode_text(
    team: Team, observation: Observation, inferred: Inferred, visible_counts: NDArray[np.float64] | None = None
) -> DecodedText:
    """Choose all lost tokens of a document (1, L): a most likely text that is allowed.

    All lost tokens are predicted from the known ones. In every group of neighbouring lost tokens, the more confident
    half is filled in; the rest is predicted again, given the tokens filled in, until no token is left. A run of n
    tokens takes about log2 n iterations, and a token without lost neighbours takes one. Tokens that were filled in may
    be wrong. With c the probability that all tokens filled in near a token are correct, the confidence of a token v is

        c p(v | visible, filled in) + (1 - c) p(v | visible)

    Tokens that were hidden because they may be wrong (``locate_errors``) are lost, too: their observed token is part of
    the likelihood, with which every prediction is multiplied. With ``visible_counts``, the loss rate of each token is
    inferred after the first iteration, unless the channel already tells something about lost tokens.

    If time runs out, the remaining tokens are filled in at once, by their last predictions. Positions without a
    prediction are listed in ``not_predicted``: a lost token is a placeholder there, and a hidden token is kept as
    observed if the constraint allows it. Without any prediction, the OutOfTimeError is raised.

    Args:
        team: m experts.
        observation: the document, without uncertain tokens.
        inferred: its inferred composition.
        visible_counts: (V,) number of visible tokens of each kind, in the whole document if the observation is an
            excerpt; None if all tokens are lost equally often.
    """
    if observation.uncertain.any():
        raise ConservatorError("decode_text does not support uncertain tokens; use locate_errors first")
    if observation.likelihood.has_loss_rates:
        visible_counts = None
    draft = Draft(team, observation, inferred)
    out_of_time: str | None = None
    with team.meter.measure() as spent:
        try:
            for iteration in team.meter.steps(range(max_iterations(np.flatnonzero(draft.pending)))):
                margin = CONFIG.margin_positions if iteration else None
                for predictions, log_probs in predict_pending(team, draft.observation, inferred, draft, margin):
                    draft.update(predictions, log_probs)
                if visible_counts is not None and not iteration:
                    draft.apply_loss_rates(visible_counts)
                draft.fill()
                if not draft.pending.any():
                    break
        except OutOfTimeError as error:
            if draft.not_predicted[draft.pending].all():
                raise
            out_of_time = error.stage
            draft.fill(all_at_once=True)
    not_predicted = np.flatnonzero(draft.not_predicted)
    return DecodedText(
        draft.text,
        draft.confidence,
        draft.log_probs,
        draft.gate_weights,
        spent.cost,
        not_predicted,
        out_of_time,
        draft.loss_rates,
    )


class Draft:
    """A partially decoded document (1, L).

    Attributes:
        observation: the document, with the inferred loss rates if there are any.
        loss_rates: (V,) the inferred loss rate of each token; None if they were not inferred.
        text: (L,) tokens that are known or filled in, else the mask.
        pending: (L,) True where a token is still to be filled in.
        not_predicted: (L,) True at lost positions without a prediction.
        confidence: (L,) the confidence of tokens that are known or filled in.
        log_probs: (n, V) the last predictions for the n lost tokens; uniform without a prediction.
        gate_weights: (L, g) the weight of each gated expert in them.
    """

    def __init__(self, team: Team, observation: Observation, inferred: Inferred) -> None:
        """Start a document without predictions."""
        size, mask, constraint = team.vocabulary.size, team.vocabulary.mask, team.vocabulary.constraint
        if constraint is None:
            raise ConservatorError(
                "decoding a text needs experts over bytes or characters; this vocabulary has no text"
            )
        self.observation, self.inferred, self.constraint = observation, inferred, constraint
        lost = observation.lost[0]
        self.text = observation.readable[0].masked_fill(lost, mask).numpy()
        self.pending = lost.numpy().copy()
        self.not_predicted = self.pending.copy()
        self.confidence = 1 - inferred.error_probs[0].numpy()
        self.gate_weights = np.zeros((len(self.text), len(inferred.composition.gates)))
        self.log_probs = torch.full((int(lost.sum()), size), -math.log(size), dtype=torch.float16)
        self._row = (lost.cumsum(0) - 1).numpy()
        self._observed = observation.tokens[0].clamp(max=mask).numpy()
        self._candidates = constraint.initial_candidates(self._observed[self.pending])
        self.loss_rates: Tensor | None = None
        self._first: Tensor | None = None  # the log-probabilities after the first iteration

    def update(self, predictions: Predictions, log_probs: Tensor) -> None:
        """Store predictions, and the log-probabilities (n, V) of their composition."""
        index = (predictions.sequence, predictions.position)
        weights = self.inferred.composition.gate_weights(predictions.log_probs, *index)
        positions = predictions.position.numpy()
        self.gate_weights[positions] = weights.numpy()
        self.not_predicted[positions] = False
        self._candidates.put(self._row[positions], self.constraint.make_candidates(log_probs))
        self.log_probs[self._row[positions]] = log_probs.half()

    def apply_loss_rates(self, visible_counts: NDArray[np.float64]) -> None:
        """Infer the loss rates from the predictions, and condition the predictions on them."""
        rows = np.flatnonzero(~self.not_predicted[self.observation.lost[0].numpy()])
        rates = torch.from_numpy(infer_loss_rates(self.log_probs[rows].numpy(), visible_counts))
        self.loss_rates, self.observation = rates, with_loss_rates(self.observation, rates)
        for part in np.split(rows, range(CONFIG.chunk_positions, len(rows), CONFIG.chunk_positions)):
            log_probs = torch.log_softmax(self.log_probs[part].float() + rates.log().float(), dim=-1)
            self._candidates.put(part, self.constraint.make_candidates(log_probs))
            self.log_probs[part] = log_probs.half()

    def fill(self, *, all_at_once: bool = False) -> None:
        """Fill in all pending tokens, or the more confident half of each group."""
        positions = np.flatnonzero(self.pending)
        rows, not_predicted = self._row[positions], self.not_predicted[positions]
        text = close_at_cuts(self.constraint, self.text, self.observation)
        tokens, probability = self.constraint.best(text, self._candidates[rows])
        if self._first is None:
            self._first = self.log_probs.clone()
        first_probability = self._first[rows, tokens].double().exp().numpy()
        keep = tokens[not_predicted] == self._observed[positions[not_predicted]]
        unread = positions[not_predicted]
        self.confidence[unread] = np.where(keep, self.confidence[unread], first_probability[not_predicted])
        context_correct = prob_neighbours_correct(self.confidence)[positions]
        filled = np.full(len(positions), True) if all_at_once else more_confident_half(positions, probability)
        self.text[positions[filled]] = tokens[filled]
        predicted = filled & ~not_predicted
        mixed = context_correct * probability + (1 - context_correct) * first_probability
        self.confidence[positions[predicted]] = mixed[predicted]
        self.pending[positions[filled]] = False


def max_iterations(positions: NDArray[np.int64]) -> int:
    """Return the largest number of iterations for the lost ``positions`` (n,), which is that of their largest group."""
    return int(np.bincount(group_of(positions)).max(initial=0)).bit_length()


def group_of(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (n,) the index of the group that contains each of the ascending ``positions``."""
    return np.cumsum(np.diff(positions, prepend=positions[:1]) > NEIGHBOUR_DISTANCE)


def more_confident_half(positions: NDArray[np.int64], probability: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (n,) the lost ``positions`` to fill in: the more confident half of each group, and all confident ones."""
    group = group_of(positions)
    order = np.lexsort((-probability, group))
    size = np.bincount(group)
    rank = np.empty(len(positions), dtype=np.int64)
    rank[order] = np.arange(len(positions)) - np.repeat(np.cumsum(size) - size, size)
    chosen: NDArray[np.bool_] = (rank < (size[group] + 1) // 2) | (probability >= CONFIG.min_confidence)
    return chosen


def prob_neighbours_correct(confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (L,) the probability that all tokens near each position are correct, assuming independence."""
    total = np.cumsum(np.log(np.maximum(confidence, 1e-9)))
    distance = NEIGHBOUR_DISTANCE
    total = np.concatenate([np.zeros(distance + 1), total, np.full(distance, total[-1] if len(total) else 0.0)])
    log_prob = total[2 * distance + 1 :] - total[: -2 * distance - 1]
    probability: NDArray[np.float64] = np.exp(np.minimum(log_prob, 0.0))
    return probability


def close_at_cuts(constraint: Constraint, tokens: NDArray[np.int64], observation: Observation) -> NDArray[np.int64]:
    """Return the tokens (L,) of a document, changed at the cuts of an excerpt so that the excerpt is allowed alone."""
    return tokens if observation.excerpt is None else constraint.close_at_cuts(tokens, observation.excerpt.cuts.numpy())


def with_loss_rates(observation: Observation, rates: Tensor) -> Observation:
    """Return the observation of a channel that erases each token with its rate (V,)."""
    if isinstance(observation.likelihood, CharacterMaskLikelihood):
        return replace(observation, likelihood=observation.likelihood.with_loss_rates(rates))
    return TokenDependentMaskChannel(rates).observe(observation.tokens, observation.excerpt)


def apply_likelihood(observation: Observation, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
    """Condition predictions (n, V) of lost tokens on what the channel tells about them."""
    if not observation.likelihood.lost_is_informative:
        return log_probs
    return observation[sequence, position].likelihood.log_posterior(log_probs.double()).to(log_probs.dtype)


def predict_pending(
    team: Team, observation: Observation, inferred: Inferred, draft: "Draft", margin: int | None
) -> Iterator[tuple[Predictions, Tensor]]:
    """Yield predictions at n pending positions of a draft, and the log-probabilities (n, V) of their tokens."""
    tokens, hidden = torch.from_numpy(draft.text)[None], torch.from_numpy(draft.pending)[None]
    excerpt, composition = observation.excerpt, inferred.composition
    for predictions, log_probs in predict(team, tokens, hidden, composition, excerpt=excerpt, margin=margin):
        index = (predictions.sequence, predictions.position)
        yield predictions, apply_likelihood(observation, log_probs, *index)
