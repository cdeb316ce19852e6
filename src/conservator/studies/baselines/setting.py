"""What every baseline is given: the same experts, windows and noisings; what several need is computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts.expert import Expert
from conservator.field.composite import Said, check_experts, gather_evidence, read
from conservator.field.cost import Cost
from conservator.field.folds import DEFAULT
from conservator.field.infer import Inferred, infer_with_bayes
from conservator.field.particles import PRESETS, ParticleSettings
from conservator.field.smoothing import PerColumn, Smoother


@dataclass(frozen=True)
class Noised:
    """What the experts said of noised windows, and what that cost."""

    said: list[Said]
    cost: Cost


@dataclass(frozen=True)
class Scores:
    """How badly each expert predicts each visible token.

    Attributes:
        values: (N, L, m) in nats; nan at hidden positions.
        cost: what it took.
    """

    values: Tensor
    cost: Cost

    def mean(self) -> Tensor:
        """(N, m) over the visible tokens of a window; 0 where there are none."""
        return self.values.nanmean(dim=1).nan_to_num()


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
        particles: the settings of Algorithm 1, and of all that draws particles.
        generalists: experts that were trained on all domains, by their names; not composed.
    """

    experts: Sequence[Expert]
    observation: Observation
    labels: Tensor
    seed: int = 0
    samples: int = 4
    smoother: Smoother = field(default_factory=lambda: PerColumn(0.6))
    particles: ParticleSettings = PRESETS["byte"]
    generalists: Sequence[Expert] = ()

    def first(self, count: int) -> "Setting":
        """The first windows alone."""
        fewer = self.observation.channel.observe(self.observation.tokens[:count])
        return replace(self, observation=fewer, labels=self.labels[:count])

    def generator(self) -> torch.Generator:
        """A fresh generator: a baseline's draws do not depend on which others ran."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, L, m)."""
        return (*self.observation.tokens.shape, len(self.experts))

    @cached_property
    def noised(self) -> "Noised":
        """What the experts say of visible tokens that K noisings hide: stratified times, the mask-source path."""
        generator, (windows, length, _) = self.generator(), self.shape
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappa = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        lost = torch.rand(windows, self.samples, length, generator=generator) >= kappa.T[:, :, None]
        visible = ~self.observation.hidden[:, None]
        context, cost = check_experts(self.experts, self.observation.channel.vocab_size), Cost()
        with cost.timed():
            said = read(self.experts, self.observation.tokens, lost | ~visible, lost & visible, context, cost)
            return Noised(list(said), cost)

    @cached_property
    def plain_scores(self) -> "Scores":
        """The paper's denoising score of visible tokens, where a revealed token scores 0."""
        total = torch.zeros(self.shape, dtype=torch.float64)
        for said in self.noised.said:
            truth = self.observation.tokens[said.sequence, said.position]
            losses = -said.log_probs.gather(-1, truth.expand(len(self.experts), -1)[..., None])[..., 0].T.double()
            total.index_put_((said.sequence, said.position), losses, accumulate=True)
        return Scores(
            (total / self.samples).masked_fill(self.observation.hidden[..., None], torch.nan), self.noised.cost
        )

    @cached_property
    def held_out_scores(self) -> "Scores":
        """The loss of visible tokens while they are hidden, by folds."""
        corners = torch.eye(len(self.experts), dtype=torch.float64)
        heard = gather_evidence(self.experts, self.observation, DEFAULT, self.generator(), corners)
        certain = torch.zeros(self.observation.channel.vocab_size)  # what the channel adds to a certain token
        unlost = self.observation.channel.observe(torch.zeros((), dtype=torch.long))
        kept = self.observation.channel.log_evidence(unlost, certain)
        return Scores((kept - heard.emissions).masked_fill(self.observation.hidden[..., None], torch.nan), heard.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """Our field."""
        return infer_with_bayes(self.experts, self.observation, self.generator())
