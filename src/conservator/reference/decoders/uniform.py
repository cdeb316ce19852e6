"""Decoders of lost tokens for experts with a uniform source (appendix "Decoders"): in one step, or in several."""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Expert, Meter, Predictions, Team
from conservator.experts.uniform import source_tokens
from conservator.field import Composition
from conservator.reference.decoders.decoded import Decoded
from conservator.reference.uniform.fixed_time import FixedTimeExpert

T_DEC = 0.9  # time kappa: of the paper's one-step decoder [definition]


def decode_uniform(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    generator: torch.Generator,
    *,
    steps: int = 1,
    start: float = T_DEC,
    seed: int = 0,
) -> Decoded:
    """Fill the lost positions of an observation (N, L); visible tokens are copied.

    Lost positions start as noise of the source, which is the same for every method that decodes a document with this
    seed. In each of ``steps`` equal steps of time except the last, tokens are redrawn as in ``sample_uniform``; in the
    last step, every lost position gets its most likely token. One step is the paper's decoder, at ``start`` = t_dec.
    """
    kappas = times(start, steps)
    meter = Meter()
    with meter.measure() as spent:
        state = source_state(experts, observation, seed)
        for kappa, next_kappa in itertools.pairwise(kappas):
            state = redraw(experts, observation, composition, state, kappa, next_kappa, generator, meter)
        confidence = torch.ones(state.shape, dtype=torch.float64)
        for predictions, log_probs in predict_lost(experts, observation, composition, state, kappas[-1], meter):
            best, chosen = log_probs.max(dim=-1)
            state[predictions.sequence, predictions.position] = chosen
            confidence[predictions.sequence, predictions.position] = best.exp().double()
    return Decoded(state, confidence, spent.cost)


def sample_uniform(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    generator: torch.Generator,
    *,
    steps: int,
    start: float,
    seed: int = 0,
) -> Tensor:
    """Draw the lost tokens of an observation (N, L), from noise at the time ``start`` to data in equal steps of kappa.

    In the step from kappa to kappa' a lost position is redrawn with probability (kappa' - kappa) / (1 - kappa), from
    the composition of the experts' predictions of the state at kappa. Visible tokens are kept.
    """
    kappas, meter = times(start, steps), Meter()
    state = source_state(experts, observation, seed)
    for kappa, next_kappa in zip(kappas, [*kappas[1:], 1.0], strict=True):
        state = redraw(experts, observation, composition, state, kappa, next_kappa, generator, meter)
    return state


def times(start: float, steps: int) -> list[float]:
    """Return the times at which the steps begin."""
    if steps < 1 or not 0 <= start < 1:
        raise ConservatorError(f"steps must be at least 1 and start between 0 and 1, got {steps} and {start}")
    return [start + (1 - start) * step / steps for step in range(steps)]


def source_state(experts: Sequence[Expert], observation: Observation, seed: int) -> Tensor:
    """Return (N, L) the observed tokens, with noise of the source at lost positions."""
    excerpt = observation.excerpt
    positions = torch.arange(observation.tokens.shape[-1]) if excerpt is None else excerpt.positions
    noise = source_tokens(positions, experts[0].spec.vocabulary.size, seed)
    return torch.where(observation.hidden, noise, observation.readable)


def redraw(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    state: Tensor,
    kappa: float,
    next_kappa: float,
    generator: torch.Generator,
    meter: Meter,
) -> Tensor:
    """Redraw the fraction (next_kappa - kappa) / (1 - kappa) of the lost positions of a state (N, L)."""
    drawn = state.clone()
    redrawn = torch.rand(state.shape, generator=generator) < (next_kappa - kappa) / (1 - kappa)
    for predictions, log_probs in predict_lost(experts, observation, composition, state, kappa, meter, redrawn):
        # argmax_v p(v) / e_v with exponential e_v draws from p.
        exponentials = torch.empty(log_probs.shape).exponential_(1, generator=generator)
        drawn[predictions.sequence, predictions.position] = (log_probs.exp() / exponentials).argmax(-1)
    return drawn


def predict_lost(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    state: Tensor,
    kappa: float,
    meter: Meter,
    redrawn: Tensor | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """Predict the lost positions of a state (N, L) at time kappa; only those in ``redrawn`` (N, L) if it is given."""
    team = Team([FixedTimeExpert(expert, kappa) for expert in experts], meter)
    team.check(observation)
    predicted = observation.hidden if redrawn is None else observation.hidden & redrawn
    batches = team.read(
        state,
        torch.zeros_like(predicted)[:, None],
        predicted[:, None],
        excerpt=observation.excerpt,
        active=composition.active_experts(),
    )
    for predictions in batches:
        yield predictions, composition.log_probs(predictions.log_probs, predictions.sequence, predictions.position)
