"""Setting for experts with a uniform source: scores, evidence from cavity distributions, and Algorithm 1."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.experts import At, Context, Cost, Expert, Team
from conservator.experts.uniform import LeaveOneOut, MaskedFromUniform, filled, noised
from conservator.field import Composition, Inferred, global_prior
from conservator.reference import (
    Cavities,
    CompositeEvidence,
    FixedTimeExpert,
    Particles,
    Smoother,
    ascend,
    sample_uniform,
    uniform_denoising_score,
)
from conservator_studies.baselines.chunked import ChunkedExpert
from conservator_studies.baselines.setting import ExpertScores, NoisedPredictions, Setting

Score = Callable[[Expert, Tensor, int, torch.Generator], Tensor]


@dataclass(frozen=True, kw_only=True)
class UniformSetting(Setting):
    """Experimental setting for experts with a uniform source.

    The team predicts lost tokens, with noise at all lost positions. The noise depends only on the seed and the
    position, so all methods see the same noise.

    Attributes:
        experts: the experts with a uniform source that ``team`` wraps.
    """

    experts: Sequence[Expert]

    @classmethod
    def of(
        cls,
        experts: Sequence[Expert],
        observation: Observation,
        labels: Tensor,
        seed: int,
        *,
        generalists: Sequence[Expert] = (),
        **options: Any,
    ) -> "UniformSetting":
        """Wrap experts with a uniform source, so that they predict lost tokens."""
        team = Team([MaskedFromUniform(expert, seed) for expert in experts])
        wrapped = [MaskedFromUniform(expert, seed) for expert in generalists]
        return cls(team, observation, labels, seed, experts=experts, generalists=wrapped, **options)

    @property
    def leave_one_out_team(self) -> Team:
        """Team that predicts each token from all other tokens."""
        return Team([LeaveOneOut(expert, self.seed) for expert in self.experts])

    @cached_property
    def noised_predictions(self) -> NoisedPredictions:
        """Predictions of all visible tokens under K samples of the uniform noise."""
        generator, (windows, _, _), observation = self.generator(), self.shape, self.observation
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappas = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        clean = filled(Context(observation.readable, observation.hidden), observation.vocab_size, self.seed)
        visible, meter, predictions = ~observation.lost[:, None], self.team.meter, []
        with meter.measure() as spent:
            for kappa in kappas:
                state = noised(clean, kappa, observation.vocab_size, generator)
                for row in range(windows):
                    team = Team([FixedTimeExpert(expert, float(kappa[row])) for expert in self.experts], meter)
                    target = visible[[row]]
                    for prediction in team.read(state[[row]], torch.zeros_like(target), target):
                        prediction.sequence.fill_(row)
                        predictions.append(prediction)
        return NoisedPredictions(predictions, spent.cost)

    @cached_property
    def held_out_scores(self) -> ExpertScores:
        """Loss of visible tokens under their cavity distributions, which exclude the token itself."""
        team, observation = self.leave_one_out_team, self.observation
        values = torch.full(self.shape, torch.nan, dtype=torch.float64)
        with team.meter.measure() as spent:
            for prediction in team.read(observation.readable, observation.hidden[:, None], ~observation.lost[:, None]):
                index = (prediction.sequence, prediction.position)
                truth = observation.tokens[index].expand(len(team), -1)[..., None]
                values[index] = -prediction.log_probs.gather(-1, truth)[..., 0].T.double()
        return ExpertScores(values, spent.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """Exact posterior of fields on the weight grid, from cavity distributions."""
        return Cavities()(self.leave_one_out_team, self.observation, self.generator())

    @cached_property
    def shared(self) -> Inferred:
        """Posterior of one global weight per window, from cavity distributions."""
        return Cavities(resolution=10, priors=global_prior)(self.leave_one_out_team, self.observation, self.generator())

    def ascent(self, smoother: Smoother) -> Inferred:
        """The paper's update with a smoother, on the gradient of cavity evidence."""
        team, fields = self.leave_one_out_team, []
        with team.meter.measure() as spent:
            for number in range(len(self.labels)):
                evidence = CompositeEvidence.by_cavity(team, self.observation[number])
                fields.append(ascend(evidence.gradient, evidence.shape, self.iterations, self.eta, smoother)[0])
        return Inferred.given(torch.stack(fields), spent.cost)

    def algorithm_1(self, *, shared: bool = False, score: Score = uniform_denoising_score) -> Inferred:
        """Run Algorithm 1 with particles that start from uniform noise; ``score`` defaults to the paper's heuristic."""
        counting, settings, fields = [CountingExpert(expert) for expert in self.experts], self.particles, []
        experts = [ChunkedExpert(expert) for expert in counting]
        start = time.perf_counter()
        for number in range(len(self.labels)):
            estimate = GradientEstimate(experts, self.observation[number], settings, score, self.seed)
            shape = (self.observation.tokens.shape[1], len(experts))
            ascent = ascend(estimate, shape, settings.iterations, settings.eta, settings.smoother, shared=shared)
            fields.append(ascent[0])
        cost = Cost(sum(expert.count for expert in counting), time.perf_counter() - start)
        return Inferred.given(torch.stack(fields), cost)


class GradientEstimate:
    """Equation (est_gradient) for a window (L,) and a uniform source, as a function of the field."""

    def __init__(
        self, experts: Sequence[Expert], observation: Observation, settings: Particles, score: Score, seed: int
    ) -> None:
        """Store the inputs; ``seed`` determines the noise and all random draws."""
        self.experts, self.settings, self.score, self.seed = experts, settings, score, seed
        self.generator = torch.Generator().manual_seed(seed)
        clamped = observation[None][[0] * settings.particles]
        all_lost = torch.full_like(clamped.tokens, clamped.vocab_size)
        self.observations = (clamped, MaskChannel(clamped.vocab_size, 1.0).observe(all_lost))

    def __call__(self, lam: Tensor) -> Tensor:
        """Mean score (L, m) of unclamped particles minus mean score of clamped particles."""
        settings, means = self.settings, []
        composition = Composition.of_field(lam.expand(settings.particles, *lam.shape))
        for observation in self.observations:
            drawn = sample_uniform(
                self.experts,
                observation,
                composition,
                self.generator,
                steps=settings.steps,
                start=float((~observation.lost).double().mean()),
                seed=self.seed,
            )
            scores = [self.score(expert, drawn, settings.samples, self.generator).mean(0) for expert in self.experts]
            means.append(torch.stack(scores, dim=-1))
        return means[1] - means[0]


class CountingExpert:
    """An expert that counts its input sequences."""

    def __init__(self, expert: Expert) -> None:
        """Start the count at 0."""
        self.expert, self.spec, self.count = expert, expert.spec, 0

    def predict(self, context: Context, at: At) -> Tensor:
        """Count the sequences and delegate to the expert."""
        self.count += len(context.tokens)
        return self.expert.predict(context, at)
