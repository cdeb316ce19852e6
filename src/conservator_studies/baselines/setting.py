"""What every baseline is given: the same experts, windows and noisings; what several need is computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Cost, Expert, Predictions, Team
from conservator.field import DEFAULT, PRESETS, Bayes, Inferred, Particles, PerColumn, Smoother, hide, lattice_evidence


@dataclass(frozen=True)
class Noised:
    """What the experts predict of tokens that noisings hide, and what that cost."""

    predictions: list[Predictions]
    cost: Cost


@dataclass(frozen=True)
class Scores:
    """How badly each expert predicts each visible token.

    Attributes:
        values: (N, L, m) in nats; nan at lost positions.
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
        team: m experts.
        observation: (N, L), of a mask channel.
        labels: (N, L) the true region of each position; for the privileged router alone.
        seed: what every baseline's randomness follows from.
        samples: K, how often a window is noised for the plain scores.
        smoother: the one that every local field gets.
        particles: the settings of Algorithm 1, and of all that draws particles.
        generalists: experts that were trained on all domains, by their names; not composed.
    """

    team: Team
    observation: Observation
    labels: Tensor
    seed: int = 0
    samples: int = 4
    smoother: Smoother = field(default_factory=lambda: PerColumn(0.6))
    particles: Particles = PRESETS["byte"]
    generalists: Sequence[Expert] = ()

    def first(self, count: int) -> "Setting":
        """The first windows alone."""
        return replace(self, observation=self.observation[:count], labels=self.labels[:count])

    def generator(self) -> torch.Generator:
        """A fresh generator: a baseline's draws do not depend on which others ran."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, L, m)."""
        windows, length = self.observation.tokens.shape
        return windows, length, len(self.team)

    @cached_property
    def noised(self) -> Noised:
        """What the experts predict of visible tokens that K noisings hide: stratified times, the mask-source path."""
        generator, (windows, length, _) = self.generator(), self.shape
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappa = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        noise = torch.rand(windows, self.samples, length, generator=generator) >= kappa.T[:, :, None]
        lost = self.observation.lost[:, None]
        self.team.check(self.observation)
        with self.team.meter.measure() as spent:
            predictions = list(self.team.read(self.observation.tokens, noise | lost, noise & ~lost))
        return Noised(predictions, spent.cost)

    @cached_property
    def plain_scores(self) -> Scores:
        """The paper's denoising score of visible tokens, where a revealed token scores 0."""
        total = torch.zeros(self.shape, dtype=torch.float64)
        for found in self.noised.predictions:
            place = (found.sequence, found.position)
            truth = self.observation.tokens[place].expand(len(self.team), -1)[..., None]
            losses = -found.log_probs.gather(-1, truth)[..., 0].T.double()
            total.index_put_(place, losses, accumulate=True)
        mean = total / self.samples
        return Scores(mean.masked_fill(self.observation.lost[..., None], torch.nan), self.noised.cost)

    @cached_property
    def held_out_scores(self) -> Scores:
        """The loss of visible tokens while they are hidden, by folds."""
        corners, generator = torch.eye(len(self.team), dtype=torch.float64), self.generator()
        with self.team.meter.measure() as spent:
            patterns = DEFAULT.draw(~self.observation.lost, generator)
            hidden = hide(patterns, self.observation, None, generator)
            evidence = lattice_evidence(self.team, self.observation, patterns, hidden, corners, repeats=DEFAULT.repeats)
        # Evidence is log p(token) plus what the channel adds, which is the evidence of a token of probability 1.
        added = self.observation.likelihood.log_evidence(torch.zeros(self.observation.vocab_size))
        values = added[..., None] - evidence.emissions
        return Scores(values.masked_fill(self.observation.lost[..., None], torch.nan), spent.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """Our field."""
        return Bayes()(self.team, self.observation, self.generator())
