"""The input of every baseline: the same experts, windows and noisings. What several baselines need is computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Cost, Expert, Predictions, Team
from conservator.field import DEFAULT, GLOBAL, Bayes, Inferred, grid_evidence, hide
from conservator.reference import PRESETS, Ascent, Particles, PerColumn, Smoother
from conservator_studies.baselines.pieces import InPieces


@dataclass(frozen=True)
class Noised:
    """The experts' predictions of tokens that noisings hide, and their cost."""

    predictions: list[Predictions]
    cost: Cost


@dataclass(frozen=True)
class Scores:
    """The loss of each expert on each visible token.

    Attributes:
        values: (N, L, m) in nats; nan at lost positions.
        cost: network evaluations and seconds.
    """

    values: Tensor
    cost: Cost

    def mean(self) -> Tensor:
        """(N, m) the mean over the visible tokens of a window; 0 if there are none."""
        return self.values.nanmean(dim=1).nan_to_num()


@dataclass(frozen=True)
class Setting:
    """Damaged windows, and the experts and settings with which they are restored.

    Attributes:
        team: m experts.
        observation: (N, L), of a mask channel.
        labels: (N, L) the true region of each position; for the privileged router alone.
        seed: the seed of every baseline.
        samples: K, how often a window is noised for the plain scores.
        smoother: the smoother of the baselines that smooth their fields.
        iterations: R, of routers that ascend.
        eta: their step size.
        particles: the settings of Algorithm 1, and of baselines that draw particles.
        generalists: experts that were trained on all domains; they are not composed.
    """

    team: Team
    observation: Observation
    labels: Tensor
    seed: int = 0
    samples: int = 4
    smoother: Smoother = field(default_factory=lambda: PerColumn(0.6))
    iterations: int = 30
    eta: float = 1.0
    particles: Particles = PRESETS["byte"]
    generalists: Sequence[Expert] = ()

    def first(self, count: int) -> "Setting":
        """The first windows alone."""
        return replace(self, observation=self.observation[:count], labels=self.labels[:count])

    def generator(self) -> torch.Generator:
        """A new generator, so that the draws of a baseline do not depend on which others ran before."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, L, m)."""
        windows, length = self.observation.tokens.shape
        return windows, length, len(self.team)

    @property
    def whole(self) -> Team:
        """The team for methods that read a whole window at once."""
        return Team([InPieces(expert) for expert in self.team.experts], self.team.meter)

    @cached_property
    def noised(self) -> Noised:
        """The experts' predictions of visible tokens that K noisings hide: mask-source path, stratified times."""
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
            evidence = grid_evidence(self.team, self.observation, patterns, hidden, corners, repeats=DEFAULT.repeats)
        # The evidence is log p(token) plus a term of the channel, which is the evidence of a token with probability 1.
        added = self.observation.likelihood.log_evidence(torch.zeros(self.observation.vocab_size))
        values = added[..., None] - evidence.emissions
        return Scores(values.masked_fill(self.observation.lost[..., None], torch.nan), spent.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """The composition that our method infers."""
        return Bayes()(self.team, self.observation, self.generator())

    @cached_property
    def shared(self) -> Inferred:
        """The posterior of one weight for the whole window, from the evidence of all of its positions."""
        return GLOBAL(self.team, self.observation, self.generator())

    def ascent(self, smoother: Smoother) -> Inferred:
        """The paper's update and a smoother, on the gradient of composite evidence."""
        engine = Ascent(smoother, self.iterations, self.eta)
        return engine(self.team, self.observation, self.generator())

    def algorithm_1(self, *, shared: bool = False) -> Inferred:
        """The paper's particles, window by window: local weights, or one weight a window by the same estimate.

        The random draws for a window do not depend on the number of windows.
        """
        engine, fields, cost = replace(self.particles, shared=shared), [], Cost()
        for number in range(len(self.labels)):
            generator = torch.Generator().manual_seed(1000 * self.seed + number)
            found = engine(self.whole, self.observation[number : number + 1], generator)
            fields.append(found.field)
            cost += found.cost
        return Inferred.given(torch.cat(fields), cost)
