"""Decoders of lost tokens: in one step, or in several steps that condition on the tokens filled in before."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from conservator.channels import Excerpt
from conservator.experts import Predictions, Team
from conservator.field import Composition


@dataclass(frozen=True)
class Reading:
    """Which text each expert conditions on while lost tokens are decoded.

    Attributes:
        domain_threshold: text is hidden from an expert where its mean weight is below this, because experts were trained on
            pure documents. With 0, every expert conditions on all visible text.
    """

    domain_threshold: float = 0.0

    def hidden_from(self, composition: Composition) -> Tensor | None:
        """(N, L, m) True where text is hidden from an expert; None if nothing is. One that recalls reads everything."""
        if self.domain_threshold <= 0:
            return None
        hidden = composition.mean() < self.domain_threshold
        return hidden if composition.gate is None else functional.pad(hidden, (0, 1))


def predict(
    team: Team,
    tokens: Tensor,
    hidden: Tensor,
    composition: Composition,
    reading: Reading | None = None,
    excerpt: Excerpt | None = None,
    margin: int | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Predict hidden tokens from visible ones: equation (decode), before its argmax.

    Args:
        team: m experts.
        tokens: (N, L).
        hidden: (N, L).
        composition: the inferred composition.
        reading: which text each expert conditions on.
        excerpt: which positions of a longer sequence these are.
        margin: how many positions are read on either side of those that are predicted, as in ``Team.read``.

    Yields:
        The experts' predictions at some hidden positions, and the log-probabilities (n, V) of their composition.
    """
    hidden_from = (reading or Reading()).hidden_from(composition)
    read = team.read(
        tokens,
        hidden[:, None],
        hidden[:, None],
        hidden_from=hidden_from,
        excerpt=excerpt,
        active=composition.asked(),
        margin=margin,
    )
    for found in read:
        yield found, composition.log_probs(found.log_probs, found.sequence, found.position)
