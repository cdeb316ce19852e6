"""A uniform-source expert as one that sees which tokens are hidden, so that a team takes it."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import IMPOSSIBLE, At, Context, Expert, ExpertSpec, ask, check_context, copy_visible
from conservator.experts.source import MaskSource
from conservator.experts.team import part_of
from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.path import source_tokens

# The last kappa at which an expert is asked. Above it, the cavities of a trained expert are its own error: energies of
# small networks over bytes were 4.18 nats a token with all times, and 3.84, 3.76 and 3.74 up to 0.99, 0.95 and 0.9.
LATEST = 0.95


@dataclass(frozen=True)
class LeaveOneOut:
    """The law of every token given all others, from one pass: at a hidden position, and at a visible one too.

    Hidden positions are filled with tokens of the source, and kappa is the share of visible tokens, or the context's
    time, but at most LATEST, so that a text without gaps can be read too. The law of a token is its cavity, which does
    not depend on the token that was read there. It is therefore evidence at visible positions without folds. In this
    alone it differs from other experts, which copy them: read it with ``wanted`` positions that are visible.

    Attributes:
        expert: with a uniform source.
        seed: of the source. The noise at a position of a document is the same whoever reads it, in whatever window.
        draws: over how many sources the probabilities are averaged.
    """

    expert: Expert
    seed: int = 0
    draws: int = 1

    def __post_init__(self) -> None:
        """Check the source of the expert and the number of draws."""
        if self.expert.spec.source.shows_noise:
            raise ConservatorError(f"the expert {self.expert.spec.name!r} has a mask source: it needs no noise in gaps")
        if self.draws < 1:
            raise ConservatorError(f"{self.draws} draws of the source; at least one is needed")

    @property
    def spec(self) -> ExpertSpec:
        """That of the expert, but with a mask source."""
        return replace(self.expert.spec, source=MaskSource())

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | the other tokens), averaged over the sources, at the positions ``at``: (n, V)."""
        check_context(self.spec, context)
        kappa = context.kappa.clamp(max=LATEST)
        found = self._cavities(context, at, kappa, 0)
        for draw in range(1, self.draws):
            found = torch.logaddexp(found, self._cavities(context, at, kappa, draw))
        return found - math.log(self.draws) if self.draws > 1 else found

    def _cavities(self, context: Context, at: At, kappa: Tensor, draw: int) -> Tensor:
        """(n, V) log cav at the positions ``at``, with one source."""
        state = filled(context, self.spec.vocabulary.size, self.seed, draw)
        read = Context(state, torch.zeros_like(context.hidden), kappa, context.start)
        return cavity(ask(self.expert, read, at), state[at].clamp_min(0), kappa[at[0]])


@dataclass(frozen=True)
class MaskedFromUniform(LeaveOneOut):
    """A uniform-source expert as one with a mask source.

    A hidden token has the law that ``LeaveOneOut`` gives it; a visible one is copied. The expert is not asked about
    sequences in which only visible positions are wanted.
    """

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible tokens) at the positions ``at``: (n, V), float32."""
        check_context(self.spec, context)
        hidden = context.hidden & context.real
        table = torch.full((len(at[0]), self.spec.vocabulary.size), IMPOSSIBLE, dtype=torch.float32)
        wanted = hidden[at].nonzero()[:, 0]
        if len(wanted):
            row, place = (one[wanted] for one in at)
            part, inside, _ = part_of(context, (row, place), torch.ones_like(row, dtype=torch.bool))
            table[wanted] = super().predict(part, inside).float()
        return copy_visible(table, Context(context.tokens, hidden), at)


def filled(context: Context, vocab_size: int, seed: int, draw: int = 0) -> Tensor:
    """(B, L) the visible tokens of a context, and tokens of the source where they are hidden; padding stays."""
    start = torch.zeros(len(context.tokens), dtype=torch.long) if context.start is None else context.start
    positions = start[:, None] + torch.arange(context.tokens.shape[1])
    noise = source_tokens(positions, vocab_size, seed, draw)
    return torch.where(context.hidden & context.real, noise, context.tokens)
