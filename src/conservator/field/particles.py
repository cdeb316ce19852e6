"""The paper's Algorithm 1: particles from a composed-logit sampler, denoising scores, exponentiated gradient."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.composite import check_experts, rows_at_once
from conservator.field.cost import Cost, count
from conservator.field.denoising import denoising_score
from conservator.field.pool import log_pool
from conservator.field.smoothed_ascent import ascend
from conservator.field.smoothing import MovingAverage, PerColumn, Smoother


@dataclass(frozen=True)
class ParticleSettings:
    """The settings of Algorithm 1 (table "settings").

    Attributes:
        iterations: R.
        particles: P, unclamped ones, and as many clamped ones.
        samples: K, the times at which a particle is scored.
        steps: T of the sampler; the paper does not give it.
        eta: the step size.
        smoother: Smooth_tau.
        prior_term: whether the expectation under unclamped particles is subtracted; without it, what remains is the
            posterior term alone.
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


PRESETS = {
    "byte": ParticleSettings(),
    "reduced": ParticleSettings(12, 8, 2, steps=6),  # ours, of the byte settings: a thirtieth of the cost
    "1.3B": ParticleSettings(12, 24, 2, eta=0.5, smoother=PerColumn(0.4)),
    "7B": ParticleSettings(6, 8, 2, eta=0.5, smoother=PerColumn(0.2)),
    "natural": ParticleSettings(12, 24, 2, eta=0.5, smoother=MovingAverage(0.3)),
}


@dataclass(frozen=True)
class ParticleField:
    """A field as Algorithm 1 leaves it.

    Attributes:
        field: (L, m), rows on the simplex.
        cost: network evaluations and seconds.
        steps: the largest change of a weight in each iteration; the paper claims no convergence.
    """

    field: Tensor
    cost: Cost
    steps: tuple[float, ...]


def draw_particles(
    experts: Sequence[Expert],
    lam: Tensor,
    tokens: Tensor,
    hidden: Tensor,
    steps: int,
    generator: torch.Generator,
) -> Tensor:
    """Sample sequences from the composed logits, from noise to data in ``steps`` equal steps of kappa.

    A hidden token is revealed in the step from kappa to kappa' with probability (kappa' - kappa) / (1 - kappa), and
    drawn from the pool of what the experts say at that time; what is visible stays.

    Args:
        experts: m of them.
        lam: (L, m) the field.
        tokens: (B, L) what is visible; any symbol where hidden.
        hidden: (B, L) what is to be drawn.
        steps: T.
        generator: the source of all randomness.
    """
    rows = rows_at_once(len(lam), experts[0].spec.vocab_size, len(experts))
    if len(tokens) > rows:
        parts = zip(tokens.split(rows), hidden.split(rows), strict=True)
        return torch.cat([draw_particles(experts, lam, *part, steps, generator) for part in parts])
    tokens, hidden = tokens.masked_fill(hidden, 0), hidden.clone()
    for step in range(steps):
        kappa = step / steps
        log_probs = torch.stack([expert.log_probs(tokens, hidden, kappa) for expert in experts])
        pool = log_pool(log_probs, lam).exp()
        drawn = torch.multinomial(pool.flatten(0, 1), 1, generator=generator).view_as(tokens)
        reveal = torch.rand(tokens.shape, generator=generator) < 1 / (steps - step)
        tokens = torch.where(hidden & reveal, drawn, tokens)
        hidden = hidden & ~reveal
    return tokens


def estimate_gradient(
    experts: Sequence[Expert],
    lam: Tensor,
    observation: Observation,
    settings: ParticleSettings,
    generator: torch.Generator,
) -> Tensor:
    """Equation (est_gradient): (L, m), with alpha_i = 1."""
    length = observation.tokens.shape[-1]
    shape = (settings.particles, length)
    clamped = draw_particles(
        experts,
        lam,
        observation.tokens.expand(shape),
        observation.hidden.expand(shape),
        settings.steps,
        generator,
    )
    particles = [clamped]
    if settings.prior_term:
        everything = torch.ones(shape, dtype=torch.bool)
        nothing = torch.zeros(shape, dtype=torch.long)
        particles.append(draw_particles(experts, lam, nothing, everything, settings.steps, generator))
    both = torch.cat(particles)
    rows = rows_at_once(length, observation.channel.vocab_size, 1)
    scores = torch.stack(
        [
            torch.cat([denoising_score(expert, part, settings.samples, generator) for part in both.split(rows)])
            for expert in experts
        ],
        dim=-1,
    )
    gradient = -scores[: settings.particles].mean(0)
    if settings.prior_term:
        gradient = gradient + scores[settings.particles :].mean(0)
    return gradient


def infer_particles(
    experts: Sequence[Expert], observation: Observation, settings: ParticleSettings, generator: torch.Generator
) -> ParticleField:
    """Run Algorithm 1 up to its decoder, on one masked sequence (L,).

    It costs R x m x 2P x (T + K) network evaluations (half of that without the prior term).
    """
    context = check_experts(experts, observation.channel.vocab_size)
    if not isinstance(observation.channel, MaskChannel) or observation.tokens.ndim != 1:
        raise ConservatorError("Algorithm 1 clamps what is visible: it takes one sequence of a mask channel")
    length, m = len(observation.tokens), len(experts)
    if length > context:
        raise ConservatorError(f"the sequence has {length} positions; the experts read at most {context}")
    cost = Cost()
    counted = count(experts, cost)
    with cost.timed():
        lam, changes = ascend(
            lambda lam: estimate_gradient(counted, lam, observation, settings, generator),
            (length, m),
            settings.iterations,
            settings.eta,
            settings.smoother,
            shared=settings.shared,
        )
    return ParticleField(lam, cost, changes)
