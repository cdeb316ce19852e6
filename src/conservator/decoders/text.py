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


@dataclass(frozen=True)
class DecodedText:
    """A decoded document, which satisfies the constraint.

    Attributes:
        tokens: (L,) the text.
        confidence: (L,) the probability of each token, given that the text is allowed; 1 where it was known.
        context: (L,) the tokens from which the last step predicted: known ones and, after a first step, its more
            confident half; else the mask.
        log_probs: (n, V) float16, the predictions for the n lost or doubtful tokens, in their order; None unless kept.
        recalled: (L,) the weight of an expert that recalls text in the last prediction of each token; 0 if none does.
        cost: network evaluations and seconds.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    context: NDArray[np.int64]
    log_probs: Tensor | None
    recalled: NDArray[np.float64]
    cost: Cost


def decode_text(
    team: Team,
    observation: Observation,
    inferred: Inferred,
    generator: torch.Generator,
    *,
    keep: bool = False,
) -> DecodedText:
    """Choose all lost and doubtful tokens of a document (1, L) jointly: the most likely text that is allowed.

    Without doubtful tokens there are two steps. The first predicts all lost tokens from the known ones; the second
    predicts the less confident half again, from the known tokens and the more confident half. With doubtful tokens
    there is one step.

    Args:
        team: m experts.
        observation: the document.
        inferred: its inferred composition.
        generator: draws which doubtful tokens are hidden together.
        keep: return ``log_probs``.
    """
    mask, constraint = team.vocabulary.mask, team.vocabulary.constraint
    if constraint is None:
        raise ConservatorError("the vocabulary of these experts has no text, so no text can be decoded")
    choose = (observation.lost | observation.doubtful)[0]
    row = choose.cumsum(0) - 1
    candidates = constraint.empty(int(choose.sum()))
    kept = torch.empty(len(candidates.value), team.vocabulary.size, dtype=torch.float16) if keep else None
    visible = observation.readable[0].masked_fill(choose, mask).numpy()
    tokens = sealed(constraint, visible, observation)

    recalled = np.zeros(len(visible))

    def take(found: Predictions, log_probs: Tensor) -> None:
        position = found.position
        weight = inferred.composition.recall_weight(found.log_probs, found.sequence, position)
        recalled[position.numpy()] = weight.numpy()
        candidates.put(row[position].numpy(), constraint.reduce(log_probs))
        if kept is not None:
            kept[row[position]] = log_probs.half()

    def chosen() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        text, confidence = visible.copy(), np.ones(len(visible))
        text[choose.numpy()], confidence[choose.numpy()] = constraint.best(tokens, candidates)
        return text, confidence

    steps = range(1 if observation.doubtful.any() else 2)
    text, confidence, context = visible, np.ones(len(visible)), visible
    with team.meter.measure() as spent:
        for step in team.meter.steps(steps):
            if step == 0:
                for found, log_probs in _first_predictions(team, observation, inferred, generator):
                    take(found, log_probs)
            elif choose.any():
                unsure = choose & torch.from_numpy(confidence < np.median(confidence[choose.numpy()]))
                context = np.where(unsure.numpy(), mask, text)
                filled = torch.from_numpy(text)[None]
                for found, log_probs in predict(
                    team, filled, unsure[None], inferred.composition, excerpt=observation.excerpt
                ):
                    take(found, log_probs)
            text, confidence = chosen()
    return DecodedText(text, confidence, context, kept, recalled, spent.cost)


def sealed(constraint: Constraint, tokens: NDArray[np.int64], observation: Observation) -> NDArray[np.int64]:
    """The tokens (L,) of a document; those of an excerpt are changed at its cuts, so that it is allowed alone."""
    return tokens if observation.excerpt is None else constraint.seal(tokens, observation.excerpt.cuts.numpy())


def _first_predictions(
    team: Team, observation: Observation, inferred: Inferred, generator: torch.Generator
) -> Iterator[tuple[Predictions, Tensor]]:
    """Yield predictions at n positions, and the log-probabilities (n, V) of their tokens, given what was observed."""
    if not observation.doubtful.any():
        yield from predict(
            team, observation.readable, observation.lost, inferred.composition, excerpt=observation.excerpt
        )
        return
    for found, log_probs in predict_with_channel(team, observation, inferred, FOLDS, generator):
        seen = observation[found.sequence, found.position]
        yield found, seen.likelihood.log_posterior(log_probs)
