"""The setting of experts with a uniform source: their scores, their evidence by cavities, and Algorithm 1 for them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
from conservator_studies.baselines.pieces import InPieces
from conservator_studies.baselines.setting import Noised, Scores, Setting

Score = Callable[[Expert, Tensor, int, torch.Generator], Tensor]


@dataclass(frozen=True, kw_only=True)
class UniformSetting(Setting):
    """Damaged windows for experts with a uniform source.

    The team predicts lost tokens, with noise in all gaps. The noise depends on the seed and the place alone, so that it
    is the same for all methods.

    Attributes:
        experts: the experts themselves.
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
        """Make the team, and what else can predict lost tokens, from experts with a uniform source."""
        team = Team([MaskedFromUniform(expert, seed) for expert in experts])
        others = [MaskedFromUniform(expert, seed) for expert in generalists]
        return cls(team, observation, labels, seed, experts=experts, generalists=others, **options)

    @property
    def leaving_out(self) -> Team:
        """The experts as a team that predicts every token from the others."""
        return Team([LeaveOneOut(expert, self.seed) for expert in self.experts])

    @cached_property
    def noised(self) -> Noised:
        """The experts' predictions of all visible tokens under K noisings by the source."""
        generator, (windows, _, _), whole = self.generator(), self.shape, self.observation
        strata = torch.rand(self.samples, windows, generator=generator).argsort(dim=0)
        kappas = (strata + torch.rand(self.samples, windows, generator=generator)) / self.samples
        known = filled(Context(whole.readable, whole.hidden), whole.vocab_size, self.seed)
        visible, meter, predictions = ~whole.lost[:, None], self.team.meter, []
        with meter.measure() as spent:
            for kappa in kappas:
                state = noised(known, kappa, whole.vocab_size, generator)
                for row in range(windows):
                    team = Team([FixedTimeExpert(expert, float(kappa[row])) for expert in self.experts], meter)
                    wanted = visible[[row]]
                    for found in team.read(state[[row]], torch.zeros_like(wanted), wanted):
                        found.sequence.fill_(row)
                        predictions.append(found)
        return Noised(predictions, spent.cost)

    @cached_property
    def held_out_scores(self) -> Scores:
        """The loss of visible tokens by their cavities, which do not depend on them."""
        team, whole = self.leaving_out, self.observation
        values = torch.full(self.shape, torch.nan, dtype=torch.float64)
        with team.meter.measure() as spent:
            for found in team.read(whole.readable, whole.hidden[:, None], ~whole.lost[:, None]):
                place = (found.sequence, found.position)
                truth = whole.tokens[place].expand(len(team), -1)[..., None]
                values[place] = -found.log_probs.gather(-1, truth)[..., 0].T.double()
        return Scores(values, spent.cost)

    @cached_property
    def bayes(self) -> Inferred:
        """The exact posterior of lattice fields, from cavities."""
        return Cavities()(self.leaving_out, self.observation, self.generator())

    @cached_property
    def shared(self) -> Inferred:
        """The same with one weight for the whole window."""
        return Cavities(resolution=10, priors=global_prior)(self.leaving_out, self.observation, self.generator())

    def ascent(self, smoother: Smoother) -> Inferred:
        """The paper's update and a smoother, on the gradient of cavity evidence."""
        team, fields = self.leaving_out, []
        with team.meter.measure() as spent:
            for number in range(len(self.labels)):
                evidence = CompositeEvidence.by_cavity(team, self.observation[number])
                climb = partial(uphill, evidence)
                fields.append(ascend(climb, evidence.shape, self.iterations, self.eta, smoother)[0])
        return Inferred.given(torch.stack(fields), spent.cost)

    def algorithm_1(self, *, shared: bool = False, score: Score = uniform_denoising_score) -> Inferred:
        """Algorithm 1 with particles from noise of the source; the score is by default the paper's heuristic."""
        counted, settings, fields = [Counted(expert) for expert in self.experts], self.particles, []
        experts = [InPieces(expert) for expert in counted]
        start = time.perf_counter()
        for number in range(len(self.labels)):
            estimate = Estimate(experts, self.observation[number], settings, score, self.seed)
            shape = (self.observation.tokens.shape[1], len(experts))
            found = ascend(estimate, shape, settings.iterations, settings.eta, settings.smoother, shared=shared)
            fields.append(found[0])
        cost = Cost(sum(expert.count for expert in counted), time.perf_counter() - start)
        return Inferred.given(torch.stack(fields), cost)


def uphill(evidence: CompositeEvidence, lam: Tensor) -> Tensor:
    """The gradient of the evidence."""
    return evidence.value_and_gradient(lam)[1]


class Estimate:
    """Equation (est_gradient) for a window (L,) and a uniform source, as a function of the field."""

    def __init__(
        self, experts: Sequence[Expert], observation: Observation, settings: Particles, score: Score, seed: int
    ) -> None:
        """Take what it needs; ``seed`` is that of the source, and of all randomness."""
        self.experts, self.settings, self.score, self.seed = experts, settings, score, seed
        self.generator = torch.Generator().manual_seed(seed)
        clamped = observation[None][[0] * settings.particles]
        nothing = torch.full_like(clamped.tokens, clamped.vocab_size)
        self.observations = (clamped, MaskChannel(clamped.vocab_size, 1.0).observe(nothing))

    def __call__(self, lam: Tensor) -> Tensor:
        """(L, m) the mean score of unclamped particles minus that of clamped ones."""
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


class Counted:
    """An expert that counts the sequences that it reads."""

    def __init__(self, expert: Expert) -> None:
        """Begin at 0."""
        self.expert, self.spec, self.count = expert, expert.spec, 0

    def predict(self, context: Context, at: At) -> Tensor:
        """What the expert predicts."""
        self.count += len(context.tokens)
        return self.expert.predict(context, at)
