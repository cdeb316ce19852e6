"""What every baseline is given: the same experts, windows and noisings; what several need is computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts.expert import Expert
from conservator.field.composite import Cost, Said, gather_evidence, read
from conservator.field.folds import DEFAULT
from conservator.field.infer import Inferred, infer_with_bayes
from conservator.field.smoothing import PerColumn, Smoother


@dataclass(frozen=True)
class Setting:
    """Damaged windows and the means to restore them.

    Attributes:
        experts: m of them.
        observation: (N, L), of a mask channel.
        labels: (N, L) the true region of each position; for the privileged router alone.
        seed: what every baseline's randomness follows from.
        samples: K, how often a window is noised for the plain scores.
        smoother: the one that every local field gets.
    """

    experts: Sequence[Expert]
    observation: Observation
    labels: Tensor
    seed: int = 0
    samples: int = 4
    smoother: Smoother = field(default_factory=lambda: PerColumn(0.6))

    def generator(self) -> torch.Generator:
        """A fresh generator: the same draws for every baseline."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, L, m)."""
        return (*self.observation.tokens.shape, len(self.experts))

    @cached_property
    def noised(self) -> list[Said]:
        """What the experts say of visible tokens that K noisings hide: stratified times, the mask-source path."""
        generator, (windows, length, _) = self.generator(), self.shape
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappa = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        lost = torch.rand(windows, self.samples, length, generator=generator) >= kappa.T[:, :, None]
        visible = ~self.observation.hidden[:, None]
        contexts = [expert.spec.max_length for expert in self.experts if expert.spec.max_length is not None]
        context = min(contexts, default=None)
        hidden = lost | ~visible
        tokens = self.observation.tokens
        return list(read(self.experts, tokens, hidden, lost & visible, context, Cost()))

    @cached_property
    def plain_scores(self) -> Tensor:
        """(N, L, m) the paper's denoising score of visible tokens, where a revealed token scores 0; nan if hidden."""
        total = torch.zeros(self.shape, dtype=torch.float64)
        for said in self.noised:
            truth = self.observation.tokens[said.sequence, said.position]
            losses = -said.log_probs.gather(-1, truth.expand(len(self.experts), -1)[..., None])[..., 0].T.double()
            total.index_put_((said.sequence, said.position), losses, accumulate=True)
        return (total / self.samples).masked_fill(self.observation.hidden[..., None], torch.nan)

    @cached_property
    def held_out_scores(self) -> Tensor:
        """(N, L, m) the loss of visible tokens while they are hidden, by folds; nan if hidden."""
        corners = torch.eye(len(self.experts), dtype=torch.float64)
        heard = gather_evidence(self.experts, self.observation, DEFAULT, self.generator(), corners)
        certain = torch.zeros(self.observation.channel.vocab_size)  # what the channel adds to a certain token
        unlost = self.observation.channel.observe(torch.zeros((), dtype=torch.long))
        kept = self.observation.channel.log_evidence(unlost, certain)
        return (kept - heard.emissions).masked_fill(self.observation.hidden[..., None], torch.nan)

    @cached_property
    def bayes(self) -> Inferred:
        """Our field."""
        return infer_with_bayes(self.experts, self.observation, self.generator())
