"""The decoder of documents: the most likely text, by experts and channel, that the vocabulary's constraint allows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.overturn import predict_with_channel
from conservator.decoders.predict import predict
from conservator.errors import ConservatorError
from conservator.experts import Cost, Predictions, Team
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
        recalled: (L,) the weight of an expert that recalls text in the last prediction of each token; 0 if none does.
        cost: network evaluations and seconds.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    log_probs: Tensor
    recalled: NDArray[np.float64]
    cost: Cost


def decode_text(team: Team, observation: Observation, inferred: Inferred, generator: torch.Generator) -> DecodedText:
    """Choose all lost and doubtful tokens of a document (1, L): a most likely text that is allowed.

    All lost tokens are predicted from the known ones. In every group of lost tokens near each other, the surer half is
    filled in; the rest is predicted again, given what is filled in, until nothing is left. So a run of n tokens is
    chosen in about log2 n rounds, and a token with no other near it at once. What is filled in may be wrong. So with c
    the probability that all that was filled in near a token is right, the confidence of a token v is

        c p(v | visible, filled in) + (1 - c) p(v | visible)

    With doubtful tokens there is one round.

    Args:
        team: m experts.
        observation: the document.
        inferred: its inferred composition.
        generator: draws which doubtful tokens are hidden together.
    """
    mask, constraint = team.vocabulary.mask, team.vocabulary.constraint
    if constraint is None:
        raise ConservatorError("the vocabulary of these experts has no text, so no text can be decoded")
    choose = (observation.lost | observation.doubtful)[0]
    row = (choose.cumsum(0) - 1).numpy()
    candidates = constraint.empty(int(choose.sum()))
    laws = torch.empty(len(candidates), team.vocabulary.size, dtype=torch.float16)
    text = observation.readable[0].masked_fill(choose, mask).numpy()
    left = choose.numpy().copy()
    confidence, recalled = np.ones(len(text)), np.zeros(len(text))
    first = laws
    with team.meter.measure() as spent:
        for number in team.meter.steps(range(rounds_for(np.flatnonzero(left)))):
            if not left.any():
                break
            margin = AGAIN if number else None
            for found, log_probs in _predictions(team, observation, inferred, text, left, generator, margin):
                weight = inferred.composition.recall_weight(found.log_probs, found.sequence, found.position)
                place = found.position.numpy()
                recalled[place] = weight.numpy()
                candidates.put(row[place], constraint.reduce(log_probs))
                laws[row[place]] = log_probs.half()
            places = np.flatnonzero(left)
            tokens, certain = constraint.best(sealed(constraint, text, observation), candidates[row[places]])
            if number == 0:
                first = laws.clone()
            before = first[row[places], tokens].double().exp().numpy()
            right = chance_of_neighbours(confidence)[places]
            filled = slice(None) if observation.doubtful.any() else surer_half(places, certain)
            text[places[filled]] = tokens[filled]
            confidence[places[filled]] = (right * certain + (1 - right) * before)[filled]
            left[places[filled]] = False
    return DecodedText(text, confidence, laws, recalled, spent.cost)


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
    return tokens if observation.excerpt is None else constraint.seal(tokens, observation.excerpt.cuts.numpy())


def given_loss(observation: Observation, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
    """Predictions (n, V) at lost positions, given that they were lost: a channel may lose some tokens more often."""
    if not observation.likelihood.tells_lost:
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
    if not observation.doubtful.any():
        hidden = torch.from_numpy(left)[None]
        tokens = torch.from_numpy(text)[None]
        excerpt = observation.excerpt
        for found, log_probs in predict(team, tokens, hidden, inferred.composition, excerpt=excerpt, margin=margin):
            yield found, given_loss(observation, log_probs, found.sequence, found.position)
        return
    for found, log_probs in predict_with_channel(team, observation, inferred, FOLDS, generator):
        seen = observation[found.sequence, found.position]
        yield found, seen.likelihood.log_posterior(log_probs)
