"""The channel-aware predictions of learned experts: an uncertain token may be replaced."""

from collections.abc import Iterator

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.predict import ContextPolicy
from conservator.experts import Predictions, Team
from conservator.field import Folds, Inferred, hide


def predict_with_channel(
    team: Team,
    observation: Observation,
    inferred: Inferred,
    folds: int,
    generator: torch.Generator,
    policy: ContextPolicy | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Predict every uncertain or lost position from the others.

    An uncertain position is predicted while its fold is hidden. Every other uncertain token is hidden with the
    probability that it is wrong.

    Args:
        team: m experts.
        observation: (N, L).
        inferred: its inferred composition.
        folds: the number of folds of the uncertain positions, which are hidden in turn.
        generator: the source of all randomness.
        policy: the text that each expert conditions on; None for all visible text.

    Yields:
        The experts' predictions at n positions, and the log-probabilities (n, V) of their composition, without the
        likelihood of the observed tokens.
    """
    team.check(observation)
    patterns = Folds(folds).draw(observation.uncertain, generator, observation.excerpt)
    predicted = torch.cat([patterns, observation.lost[:, None]], dim=1)
    hidden = hide(predicted, observation, inferred.error_probs, generator)
    hidden_from = (policy or ContextPolicy()).hidden_from(inferred.composition)
    batches = team.read(observation.tokens, hidden, predicted, hidden_from=hidden_from, excerpt=observation.excerpt)
    for predictions in batches:
        index = (predictions.sequence, predictions.position)
        yield predictions, inferred.composition.log_probs(predictions.log_probs, *index).double()
