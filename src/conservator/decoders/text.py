"""The decoder of documents: the most likely text, by experts and channel, that the vocabulary's constraint allows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.predict import predict
from conservator.decoders.predict_with_channel import predict_with_channel
from conservator.errors import ConservatorError
from conservator.experts import Cost, OutOfTimeError, Predictions, Team
from conservator.field import Inferred
from conservator.vocabularies import Constraint

FOLDS = 5  # the number of folds of the doubtful tokens, which are hidden in turn
NEARBY = 8  # lost tokens whose distance is at most this are chosen one after the other
AGAIN = 31  # positions that are read on either side of a token that is predicted again
SURE = 0.9  # the confidence from which a token is filled in without waiting for others


@dataclass(frozen=True)
class DecodedText:
    """A decoded document, which satisfies the constraint.

    Attributes:
        tokens: (L,) the text.
        confidence: (L,) the probability of each token, given that the text is allowed; 1 where it was known.
        log_probs: (n, V) float16, the last predictions for the n lost or doubtful tokens, in their order.
        memory_weight: (L,) the weight of an expert that recalls text in the last prediction of each token; 0 if none does.
        cost: network evaluations and seconds.
        unread: (k,) the lost or doubtful positions that were never predicted, because time ran out.
        out_of_time: the stage in which time ran out; None if it did not.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    log_probs: Tensor
    memory_weight: NDArray[np.float64]
    cost: Cost
    unread: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    out_of_time: str | None = None


def decode_text(team: Team, observation: Observation, inferred: Inferred, generator: torch.Generator) -> DecodedText:
    """Choose all lost and doubtful tokens of a document (1, L): a most likely text that is allowed.

    All lost tokens are predicted from the known ones. In every group of lost tokens near each other, the surer half is
    filled in; the rest is predicted again, given what is filled in, until nothing is left. So a run of n tokens is
    chosen in about log2 n rounds, and a token with no other near it at once. What is filled in may be wrong. So with c
    the probability that all that was filled in near a token is right, the confidence of a token v is

        c p(v | visible, filled in) + (1 - c) p(v | visible)

    With doubtful tokens there is one round.

    If time runs out, what is left is filled in at once, by the last prediction of each token. What was never predicted
    is ``unread``: there a lost token is a stand-in, and a doubtful one stays as it was seen, if the constraint allows
    it. If nothing was predicted, there is nothing to keep, and the OutOfTimeError is raised.

    Args:
        team: m experts.
        observation: the document.
        inferred: its inferred composition.
        generator: draws which doubtful tokens are hidden together.
    """
    draft = Draft(team, observation, inferred)
    out_of_time: str | None = None
    with team.meter.measure() as spent:
        try:
            for number in team.meter.steps(range(rounds_for(np.flatnonzero(draft.left)))):
                margin = AGAIN if number else None
                for found, log_probs in _predictions(
                    team, observation, inferred, draft.text, draft.left, generator, margin
                ):
                    draft.put(found, log_probs)
                draft.fill(all_at_once=bool(observation.uncertain.any()))
                if not draft.left.any():
                    break
        except OutOfTimeError as error:
            if draft.unread[draft.left].all():
                raise
            out_of_time = error.stage
            draft.fill(all_at_once=True)
    unread = np.flatnonzero(draft.unread)
    return DecodedText(draft.text, draft.confidence, draft.laws, draft.memory_weight, spent.cost, unread, out_of_time)


class Draft:
    """A document (1, L) while it is decoded.

    Attributes:
        text: (L,) what is known or filled in, else the mask.
        left: (L,) True where a token is to be filled in.
        unread: (L,) True where none was predicted yet.
        confidence: (L,) of what is filled in; 1 elsewhere.
        laws: (n, V) the last predictions for the n lost or doubtful tokens; uniform where there is none.
        memory_weight: (L,) the weight of an expert that recalls text in them.
    """

    def __init__(self, team: Team, observation: Observation, inferred: Inferred) -> None:
        """Take a document of which nothing is predicted."""
        size, mask, constraint = team.vocabulary.size, team.vocabulary.mask, team.vocabulary.constraint
        if constraint is None:
            raise ConservatorError("the vocabulary of these experts has no text, so no text can be decoded")
        self.observation, self.inferred, self.constraint = observation, inferred, constraint
        choose = (observation.lost | observation.uncertain)[0]
        self.text = observation.readable[0].masked_fill(choose, mask).numpy()
        self.left = choose.numpy().copy()
        self.unread = self.left.copy()
        self.confidence, self.memory_weight = np.ones(len(self.text)), np.zeros(len(self.text))
        self.laws = torch.full((int(choose.sum()), size), -math.log(size), dtype=torch.float16)
        self._row = (choose.cumsum(0) - 1).numpy()
        self._seen = observation.tokens[0].masked_fill(observation.hidden[0], mask).numpy()
        self._candidates = constraint.initial_candidates(self._seen[self.left])
        self._first: Tensor | None = None  # the laws after the first round

    def put(self, found: Predictions, log_probs: Tensor) -> None:
        """Take predictions, and the log-probabilities (n, V) of their composition."""
        weight = self.inferred.composition.recall_weight(found.log_probs, found.sequence, found.position)
        place = found.position.numpy()
        self.memory_weight[place] = weight.numpy()
        self.unread[place] = False
        self._candidates.put(self._row[place], self.constraint.make_candidates(log_probs))
        self.laws[self._row[place]] = log_probs.half()

    def fill(self, *, all_at_once: bool) -> None:
        """Fill in what is left, or of each group the surer half."""
        places = np.flatnonzero(self.left)
        rows, unread = self._row[places], self.unread[places]
        text = sealed(self.constraint, self.text, self.observation)
        tokens, certain = self.constraint.best(text, self._candidates[rows])
        if self._first is None:
            self._first = self.laws.clone()
        before = self._first[rows, tokens].double().exp().numpy()
        stays = tokens[unread] == self._seen[places[unread]]
        right_as_seen = 1 - self.inferred.doubt[0].numpy()[places[unread]]
        self.confidence[places[unread]] = np.where(stays, right_as_seen, before[unread])
        right = chance_of_neighbours(self.confidence)[places]
        filled = np.full(len(places), True) if all_at_once else surer_half(places, certain)
        self.text[places[filled]] = tokens[filled]
        read = filled & ~unread
        self.confidence[places[read]] = (right * certain + (1 - right) * before)[read]
        self.left[places[filled]] = False


def rounds_for(places: NDArray[np.int64]) -> int:
    """The most rounds that the lost ``places`` (n,) can take: those of their largest group."""
    return int(np.bincount(group_of(places)).max(initial=0)).bit_length()


def group_of(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the number of the group that each of the ascending ``places`` is in."""
    return np.cumsum(np.diff(places, prepend=places[:1]) > NEARBY)


def surer_half(places: NDArray[np.int64], certain: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(n,) which of the lost ``places`` are filled in: of each group the surer half, and all that are sure."""
    group = group_of(places)
    order = np.lexsort((-certain, group))
    size = np.bincount(group)
    rank = np.empty(len(places), dtype=np.int64)
    rank[order] = np.arange(len(places)) - np.repeat(np.cumsum(size) - size, size)
    found: NDArray[np.bool_] = (rank < (size[group] + 1) // 2) | (certain >= SURE)
    return found


def chance_of_neighbours(confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L,) the probability that all tokens near each position are right, as if they were independent."""
    total = np.cumsum(np.log(np.maximum(confidence, 1e-9)))
    total = np.concatenate([np.zeros(NEARBY + 1), total, np.full(NEARBY, total[-1] if len(total) else 0.0)])
    near = total[2 * NEARBY + 1 :] - total[: -2 * NEARBY - 1]
    chance: NDArray[np.float64] = np.exp(np.minimum(near, 0.0))
    return chance


def sealed(constraint: Constraint, tokens: NDArray[np.int64], observation: Observation) -> NDArray[np.int64]:
    """The tokens (L,) of a document; those of an excerpt are changed at its cuts, so that it is allowed alone."""
    return tokens if observation.excerpt is None else constraint.close_at_cuts(tokens, observation.excerpt.cuts.numpy())


def apply_erasure_likelihood(observation: Observation, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
    """Predictions (n, V) at lost positions, given that they were lost: a channel may lose some tokens more often."""
    if not observation.likelihood.erasure_is_informative:
        return log_probs
    return observation[sequence, position].likelihood.log_posterior(log_probs.double()).to(log_probs.dtype)


def _predictions(
    team: Team,
    observation: Observation,
    inferred: Inferred,
    text: NDArray[np.int64],
    left: NDArray[np.bool_],
    generator: torch.Generator,
    margin: int | None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Yield predictions at the n positions that are ``left``, and the log-probabilities (n, V) of their tokens."""
    if not observation.uncertain.any():
        hidden = torch.from_numpy(left)[None]
        tokens = torch.from_numpy(text)[None]
        excerpt = observation.excerpt
        for found, log_probs in predict(team, tokens, hidden, inferred.composition, excerpt=excerpt, margin=margin):
            yield found, apply_erasure_likelihood(observation, log_probs, found.sequence, found.position)
        return
    for found, log_probs in predict_with_channel(team, observation, inferred, FOLDS, generator):
        seen = observation[found.sequence, found.position]
        yield found, seen.likelihood.log_posterior(log_probs)
