"""Input and result of all baselines.

All baselines have the same experts, windows and noise. Shared intermediate results are computed once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders import ContextPolicy
from conservator.experts import Cost, Expert, Predictions, Team
from conservator.field import DEFAULT, GLOBAL, Bayes, Inferred, grid_evidence, hide
from conservator.reference import PRESETS, Ascent, Particles, PerColumn, Smoother
from conservator_studies.baselines.chunked import ChunkedExpert


@dataclass(frozen=True)
class NoisedPredictions:
    """Predictions of tokens that were hidden by noise, and their cost."""

    predictions: list[Predictions]
    cost: Cost


@dataclass(frozen=True)
class ExpertScores:
    """Loss of each expert on each visible token.

    Attributes:
        values: (N, L, m) in nats; nan at lost positions.
        cost: network evaluations and seconds.
    """

    values: Tensor
    cost: Cost

    def mean(self) -> Tensor:
        """Mean over the visible tokens of each window (N, m); 0 if there are none."""
        return self.values.nanmean(dim=1).nan_to_num()


@dataclass(frozen=True)
class Setting:
    """Experimental setting of a comparison: damaged windows, experts and hyperparameters.

    Attributes:
        team: m experts.
        observation: (N, L), of a mask channel.
        labels: (N, L) true region of each position; only the privileged router uses them.
        seed: random seed of every baseline.
        samples: K, noise samples per window for the plain scores.
        smoother: smoother of the baselines that smooth their fields.
        iterations: R, iterations of the gradient ascent.
        eta: step size of the gradient ascent.
        particles: settings of Algorithm 1 and of baselines that draw particles.
        generalists: experts that were trained on all domains; they are not part of the team.
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
        """Keep the first ``count`` windows."""
        return replace(self, observation=self.observation[:count], labels=self.labels[:count])

    def generator(self) -> torch.Generator:
        """Make a new generator, so that the draws of a baseline are independent of the other baselines."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape (N, L, m) of a field."""
        windows, length = self.observation.tokens.shape
        return windows, length, len(self.team)

    @property
    def chunked_team(self) -> Team:
        """Team for methods that need whole windows; long windows are processed in chunks."""
        return Team([ChunkedExpert(expert) for expert in self.team.experts], self.team.meter)

    @cached_property
    def noised_predictions(self) -> NoisedPredictions:
        """Predictions of visible tokens that K noise samples hide: mask-source path, stratified times."""
        generator, (windows, length, _) = self.generator(), self.shape
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappa = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        noise = torch.rand(windows, self.samples, length, generator=generator) >= kappa.T[:, :, None]
        lost = self.observation.lost[:, None]
        self.team.check(self.observation)
        with self.team.meter.measure() as spent:
            predictions = list(self.team.read(self.observation.tokens, noise | lost, noise & ~lost))
        return NoisedPredictions(predictions, spent.cost)

    @cached_property
    def plain_scores(self) -> ExpertScores:
        """The paper's denoising score of visible tokens; a revealed token scores 0."""
        total = torch.zeros(self.shape, dtype=torch.float64)
        for prediction in self.noised_predictions.predictions:
            index = (prediction.sequence, prediction.position)
            truth = self.observation.tokens[index].expand(len(self.team), -1)[..., None]
            losses = -prediction.log_probs.gather(-1, truth)[..., 0].T.double()
            total.index_put_(index, losses, accumulate=True)
        mean = total / self.samples
        return ExpertScores(mean.masked_fill(self.observation.lost[..., None], torch.nan), self.noised_predictions.cost)

    @cached_property
    def held_out_scores(self) -> ExpertScores:
        """Loss of visible tokens when they are hidden, by folds."""
        corners, generator = torch.eye(len(self.team), dtype=torch.float64), self.generator()
        with self.team.meter.measure() as spent:
            patterns = DEFAULT.draw(~self.observation.lost, generator)
            hidden = hide(patterns, self.observation, None, generator)
            evidence = grid_evidence(self.team, self.observation, patterns, hidden, corners, repeats=DEFAULT.repeats)
        # Evidence = log p(token) + channel term; the channel term is the evidence of a token with probability 1.
        channel_term = self.observation.likelihood.log_evidence(torch.zeros(self.observation.vocab_size))
        values = channel_term[..., None] - evidence.emissions
        return ExpertScores(values.masked_fill(self.observation.lost[..., None], torch.nan), spent.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """Composition that the proposed method infers."""
        return Bayes()(self.team, self.observation, self.generator())

    @cached_property
    def shared(self) -> Inferred:
        """Posterior of one global weight per window, from the evidence of all of its positions."""
        return GLOBAL(self.team, self.observation, self.generator())

    def ascent(self, smoother: Smoother) -> Inferred:
        """The paper's update with a smoother, on the gradient of composite evidence."""
        engine = Ascent(smoother, self.iterations, self.eta)
        return engine(self.team, self.observation, self.generator())

    def algorithm_1(self, *, shared: bool = False) -> Inferred:
        """Run the paper's Algorithm 1 on each window: local weights, or one ``shared`` weight by the same estimate.

        The random draws for a window do not depend on the number of windows.
        """
        engine, fields, cost = replace(self.particles, shared=shared), [], Cost()
        for number in range(len(self.labels)):
            generator = torch.Generator().manual_seed(1000 * self.seed + number)
            inferred = engine(self.chunked_team, self.observation[number : number + 1], generator)
            fields.append(inferred.field)
            cost += inferred.cost
        return Inferred.given(torch.cat(fields), cost)


@dataclass(frozen=True)
class Composed:
    """Input of a decoder, as a baseline returns it.

    Attributes:
        inferred: composition of the team, and the cost of inference.
        team: the experts that are composed.
        context_policy: text that each expert conditions on during decoding; None for all visible text.
    """

    inferred: Inferred
    team: Team
    context_policy: ContextPolicy | None = None


Baseline = Callable[[Setting], Composed]


def composing(infer: Callable[[Setting], Inferred], context_policy: ContextPolicy | None = None) -> Baseline:
    """Make a baseline that composes the team of a setting with the weights that ``infer`` returns."""
    return lambda setting: Composed(infer(setting), setting.team, context_policy)
