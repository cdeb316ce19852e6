"""The engine ``Particles``, the paper's Algorithm 1: a composed-logit sampler, denoising scores, mirror ascent."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import At, Context, Predictions, Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred, Outcome, check_batch, has_visible
from conservator.field.pool import log_pool
from conservator.reference.evidence.denoising import denoising_score
from conservator.reference.smoothing.smoother import MovingAverage, PerColumn, Smoother
from conservator.reference.solvers.smoothed_ascent import ascend


@dataclass(frozen=True)
class Particles:
    """Algorithm 1 up to its decoder (table "settings"), on sequences without uncertain tokens.

    It costs R x m x 2P x (T + K) network evaluations per sequence (half of that without the prior term).

    Attributes:
        iterations: R.
        particles: P, the number of unclamped particles, and of clamped ones.
        samples: K, the number of times at which a particle is scored.
        steps: T, the number of steps of the sampler; the paper does not give it.
        eta: the step size.
        smoother: Smooth_tau.
        prior_term: whether the expectation under unclamped particles is subtracted; False keeps the posterior term
            alone.
        shared: one weight for the whole sequence: the gradient is the mean over positions.
    """

    iterations: int = 30
    particles: int = 48
    samples: int = 4
    steps: int = 12
    eta: float = 1.0
    smoother: Smoother = field(default_factory=lambda: PerColumn(0.6))
    prior_term: bool = True
    shared: bool = False

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""
        check_batch(team, observation)
        if observation.uncertain.any():
            raise ConservatorError(
                "Algorithm 1 clamps visible tokens and does not support uncertain ones; use the engine Bayes"
            )
        length = observation.tokens.shape[1]
        if length > team.context:
            raise ConservatorError(
                f"a sequence may have at most {team.context} positions for these experts, got {length}"
            )
        fields, outcomes = [], []
        with team.meter.measure() as spent:
            for row in team.meter.steps(range(len(observation.tokens))):
                field, changes = self.infer_one(team, observation[row], generator)
                fields.append(field)
                outcomes.append(Outcome(changes=changes))
        lam, everywhere = torch.stack(fields), torch.ones_like(observation.lost)
        error_probs = torch.zeros(observation.tokens.shape, dtype=torch.float64)
        composition = Composition.of_field(lam)
        return Inferred(
            composition, lam, lam, error_probs, everywhere, has_visible(observation), tuple(outcomes), spent.cost
        )

    def evaluations(self, experts: int) -> int:
        """Return the number of network evaluations of one sequence."""
        kinds = 2 if self.prior_term else 1
        return self.iterations * experts * kinds * self.particles * (self.steps + self.samples)

    def infer_one(
        self, team: Team, observation: Observation, generator: torch.Generator
    ) -> tuple[Tensor, tuple[float, ...]]:
        """Infer the field (L, m) of one sequence (L,); also return the largest change of a weight in each iteration."""
        return ascend(
            lambda lam: estimate_gradient(team, lam, observation, self, generator),
            (len(observation.tokens), len(team)),
            self.iterations,
            self.eta,
            self.smoother,
            shared=self.shared,
        )


PRESETS = {
    "byte": Particles(),
    "reduced": Particles(12, 8, 2, steps=6),  # our reduction of the byte settings, at 1/30 of their cost
    "1.3B": Particles(12, 24, 2, eta=0.5, smoother=PerColumn(0.4)),
    "7B": Particles(6, 8, 2, eta=0.5, smoother=PerColumn(0.2)),
    "natural": Particles(12, 24, 2, eta=0.5, smoother=MovingAverage(0.3)),
    # A tenth of the cost, for a CPU.
    "1.3B, reduced": Particles(12, 4, 2, steps=6, eta=0.5, smoother=PerColumn(0.4)),
    "natural, reduced": Particles(12, 4, 2, steps=6, eta=0.5, smoother=MovingAverage(0.3)),
}


def draw_particles(
    team: Team,
    lam: Tensor,
    tokens: Tensor,
    hidden: Tensor,
    steps: int,
    generator: torch.Generator,
) -> Tensor:
    """Sample sequences from the composed logits, from noise to data in ``steps`` equal steps of kappa.

    A hidden token is revealed in the step from kappa to kappa' with probability (kappa' - kappa) / (1 - kappa), and
    drawn from the pool of the experts' predictions at that time. Visible tokens are kept.

    Args:
        team: m experts.
        lam: (L, m) the field.
        tokens: (B, L) the visible tokens; any symbol where hidden.
        hidden: (B, L) True where a token is drawn.
        steps: T.
        generator: the source of all randomness.
    """
    rows = team.max_batch_size(len(lam))
    if len(tokens) > rows:
        batches = zip(tokens.split(rows), hidden.split(rows), strict=True)
        return torch.cat([draw_particles(team, lam, *batch, steps, generator) for batch in batches])
    tokens, hidden = tokens.masked_fill(hidden, 0), hidden.clone()
    for step in range(steps):
        # argmax_v p(v) / e_v with exponential e_v draws from p; only revealed positions have to be predicted.
        exponentials = torch.empty(*tokens.shape, team.vocabulary.size).exponential_(1, generator=generator)
        reveal = hidden & (torch.rand(tokens.shape, generator=generator) < 1 / (steps - step))
        at = reveal.nonzero(as_tuple=True)
        exponentials = exponentials[at]
        kappa = torch.full((len(tokens),), step / steps)
        tokens[at] = gumbel_argmax(team, lam, Context(tokens, hidden, kappa), at, exponentials)
        hidden = hidden & ~reveal
    return tokens


def gumbel_argmax(team: Team, lam: Tensor, context: Context, at: At, exponentials: Tensor) -> Tensor:
    """Draw tokens (n,) from the pool pi at the field ``lam`` (L, m), at the positions ``at``.

    A draw is argmax_v pi(v) / e_v with independent exponential e_v, the rows of ``exponentials`` (n, V).
    """
    drawn, rows = torch.empty(len(exponentials), dtype=torch.long), torch.arange(len(exponentials))
    for batch in Predictions(
        rows, at[1], team.predict(context, at)
    ).parts():  # ``sequence`` is the row of ``exponentials``
        pool = log_pool(batch.log_probs, lam[batch.position]).exp()
        drawn[batch.sequence] = (pool / exponentials[batch.sequence]).argmax(-1)
    return drawn


def estimate_gradient(
    team: Team,
    lam: Tensor,
    observation: Observation,
    settings: Particles,
    generator: torch.Generator,
) -> Tensor:
    """Estimate the gradient (L, m), equation (est_gradient) with alpha_i = 1, for a sequence (L,)."""
    length = observation.tokens.shape[-1]
    shape = (settings.particles, length)
    clamped = draw_particles(
        team,
        lam,
        observation.tokens.expand(shape),
        observation.lost.expand(shape),
        settings.steps,
        generator,
    )
    particles = [clamped]
    if settings.prior_term:
        everything = torch.ones(shape, dtype=torch.bool)
        nothing = torch.zeros(shape, dtype=torch.long)
        particles.append(draw_particles(team, lam, nothing, everything, settings.steps, generator))
    sequences = torch.cat(particles)
    teams = [team.subset([number]) for number in range(len(team))]
    scores = torch.stack(
        [
            torch.cat(
                [
                    denoising_score(single, batch, settings.samples, generator)
                    for batch in sequences.split(single.max_batch_size(length))
                ]
            )
            for single in teams
        ],
        dim=-1,
    )
    gradient = -scores[: settings.particles].mean(0)
    if settings.prior_term:
        gradient = gradient + scores[settings.particles :].mean(0)
    return gradient
