"""Uniform-source experts as mask-source experts, so that a team accepts them."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import (
    IMPOSSIBLE,
    At,
    Context,
    Expert,
    ExpertSpec,
    check_context,
    checked_predict,
    copy_visible,
)
from conservator.experts.source import MaskSource
from conservator.experts.team import select_rows
from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.path import source_tokens

# The cavity distributions of a trained expert are dominated by its errors at large kappa. Negative local scores of
# small byte networks: 4.18 nats per token with all times; 3.84, 3.76 and 3.74 up to 0.99, 0.95 and 0.9.
# kappa: the largest time at which an expert is evaluated [untuned]
MAX_KAPPA = 0.95


@dataclass(frozen=True)
class LeaveOneOut:
    """The distribution of every token given all others, in one pass, at hidden and at visible positions.

    Hidden positions are filled with tokens of the source. The time is ``context.time``, or else the fraction of visible
    tokens, but at most MAX_KAPPA, so that a text without hidden tokens can be read. The prediction at a position is its
    cavity distribution, which does not depend on the token that was read there. So predictions at visible positions are
    evidence without folds, whereas other experts copy visible tokens: request visible positions from this expert only.

    Attributes:
        expert: an expert with a uniform source.
        seed: seed of the source. The noise at a position of a document is the same in every window.
    """

    expert: Expert
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the source of the expert."""
        if self.expert.spec.source.shows_noise:
            raise ConservatorError(
                f"expert {self.expert.spec.name!r} must have a uniform source, got a mask source; a team accepts it as "
                "it is"
            )

    @property
    def spec(self) -> ExpertSpec:
        """The spec of the wrapped expert, with a mask source."""
        return replace(self.expert.spec, source=MaskSource())

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | the other tokens) at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        kappa = context.kappa.clamp(max=MAX_KAPPA)
        state = filled(context, self.spec.vocabulary.size, self.seed)
        noisy = Context(state, torch.zeros_like(context.hidden), kappa, context.start)
        return cavity(checked_predict(self.expert, noisy, at), state[at].clamp_min(0), kappa[at[0]])


@dataclass(frozen=True)
class MaskedFromUniform(LeaveOneOut):
    """A uniform-source expert as a mask-source expert.

    Hidden tokens have the distribution of ``LeaveOneOut``; visible tokens are copied. The expert is not evaluated on
    sequences in which only visible positions are requested.
    """

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible tokens) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        hidden = context.hidden & context.real
        log_probs = torch.full((len(at[0]), self.spec.vocabulary.size), IMPOSSIBLE, dtype=torch.float32)
        requested = hidden[at].nonzero()[:, 0]
        if len(requested):
            row, column = (index[requested] for index in at)
            rows, inside, _ = select_rows(context, (row, column), torch.ones_like(row, dtype=torch.bool))
            log_probs[requested] = super().predict(rows, inside).float()
        return copy_visible(log_probs, Context(context.tokens, hidden), at)


def filled(context: Context, vocab_size: int, seed: int) -> Tensor:
    """(B, L) the tokens of a context, with tokens of the source at hidden positions; padding is unchanged."""
    start = torch.zeros(len(context.tokens), dtype=torch.long) if context.start is None else context.start
    positions = start[:, None] + torch.arange(context.tokens.shape[1])
    noise = source_tokens(positions, vocab_size, seed)
    return torch.where(context.hidden & context.real, noise, context.tokens)
