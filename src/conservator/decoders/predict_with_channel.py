"""The channel-aware decoder for learned experts: a doubtful token may be overturned."""

from collections.abc import Iterator

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.predict import Reading
from conservator.experts import Predictions, Team
from conservator.field import Folds, Inferred, hide


def predict_with_channel(
    team: Team,
    observation: Observation,
    inferred: Inferred,
    folds: int,
    generator: torch.Generator,
    reading: Reading | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Predict every doubtful or lost position from the others.

    A doubtful position is predicted while its fold is hidden. Every other doubtful token is hidden with the probability
    that it is wrong.

    Args:
        team: m experts.
        observation: (N, L).
        inferred: its inferred composition.
        folds: the number of folds of the doubtful positions, which are hidden in turn.
        generator: the source of all randomness.
        reading: which text each expert conditions on.

    Yields:
        The experts' predictions at some positions, and the log-probabilities (n, V) of their composition, without the
        likelihood of the observed tokens.
    """
    team.check(observation)
    patterns = Folds(folds).draw(observation.uncertain, generator, observation.excerpt)
    wanted = torch.cat([patterns, observation.lost[:, None]], dim=1)
    hidden = hide(wanted, observation, inferred.doubt, generator)
    hidden_from = (reading or Reading()).hidden_from(inferred.composition)
    for found in team.read(observation.tokens, hidden, wanted, hidden_from=hidden_from, excerpt=observation.excerpt):
        log_probs = inferred.composition.log_probs(found.log_probs, found.sequence, found.position)
        yield found, log_probs.double()
