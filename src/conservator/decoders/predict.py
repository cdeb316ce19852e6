"""Predict lost tokens with a composition of experts: the first step of every decoder."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from conservator.channels import Excerpt
from conservator.experts import Predictions, Team
from conservator.field import Composition


@dataclass(frozen=True)
class ContextPolicy:
    """The text that each expert conditions on while lost tokens are decoded.

    Attributes:
        domain_threshold: text is hidden from an expert where its mean weight is below this, because experts are trained
            on pure documents. With 0, every expert conditions on all visible text.
    """

    domain_threshold: float = 0.0

    def hidden_from(self, composition: Composition) -> Tensor | None:
        """Return (N, L, m) True where text is hidden from an expert; None if no text is hidden.

        Text is never hidden from gated experts.
        """
        if self.domain_threshold <= 0:
            return None
        hidden = composition.mean() < self.domain_threshold
        return functional.pad(hidden, (0, len(composition.gates)))


def predict(
    team: Team,
    tokens: Tensor,
    hidden: Tensor,
    composition: Composition,
    policy: ContextPolicy | None = None,
    excerpt: Excerpt | None = None,
    margin: int | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Predict hidden tokens from visible ones: equation (decode), before its argmax.

    Args:
        team: m experts.
        tokens: (N, L).
        hidden: (N, L).
        composition: the inferred composition.
        policy: the text that each expert conditions on; None for all visible text.
        excerpt: the positions of a longer sequence that are given.
        margin: the context on either side of the predicted positions, in positions, as in ``Team.read``.

    Yields:
        The experts' predictions at n hidden positions, and the log-probabilities (n, V) of their composition.
    """
    hidden_from = (policy or ContextPolicy()).hidden_from(composition)
    batches = team.read(
        tokens,
        hidden[:, None],
        hidden[:, None],
        hidden_from=hidden_from,
        excerpt=excerpt,
        active=composition.active_experts(),
        margin=margin,
    )
    for predictions in batches:
        yield predictions, composition.log_probs(predictions.log_probs, predictions.sequence, predictions.position)
