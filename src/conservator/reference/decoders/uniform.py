"""Decoders of lost tokens for experts with a uniform source: from noise in the gaps, in one step or in several."""

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
from conservator.reference.uniform import FixedTimeExpert

T_DEC = 0.9  # the time of the paper's one-step decoder


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

    The gaps hold noise of the source at first, the same for every method that decodes a document with this seed. In
    each of ``steps`` equal steps of time but the last, tokens are redrawn as in ``sample_uniform``; in the last, every
    lost position gets its most likely token. One step is the paper's decoder, at the time ``start`` = t_dec.
    """
    kappas = times(start, steps)
    meter = Meter()
    with meter.measure() as spent:
        state = source_state(experts, observation, seed)
        for kappa, later in itertools.pairwise(kappas):
            state = redraw(experts, observation, composition, state, kappa, later, generator, meter)
        confidence = torch.ones(state.shape, dtype=torch.float64)
        for found, log_probs in laws(experts, observation, composition, state, kappas[-1], meter):
            best, chosen = log_probs.max(dim=-1)
            state[found.sequence, found.position] = chosen
            confidence[found.sequence, found.position] = best.exp().double()
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
    the composition of what the experts predict of the state at kappa. Visible tokens stay, the last step included.
    """
    kappas, meter = times(start, steps), Meter()
    state = source_state(experts, observation, seed)
    for kappa, later in zip(kappas, [*kappas[1:], 1.0], strict=True):
        state = redraw(experts, observation, composition, state, kappa, later, generator, meter)
    return state


def times(start: float, steps: int) -> list[float]:
    """The times at which the steps begin."""
    if steps < 1 or not 0 <= start < 1:
        raise ConservatorError(f"{steps} steps from the time {start}; at least one, from a time of at least 0, below 1")
    return [start + (1 - start) * step / steps for step in range(steps)]


def source_state(experts: Sequence[Expert], observation: Observation, seed: int) -> Tensor:
    """(N, L) the observed tokens, and noise of the source in the gaps."""
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
    later: float,
    generator: torch.Generator,
    meter: Meter,
) -> Tensor:
    """Redraw a share (later - kappa) / (1 - kappa) of the lost positions of a state (N, L)."""
    drawn = state.clone()
    chosen = torch.rand(state.shape, generator=generator) < (later - kappa) / (1 - kappa)
    for found, log_probs in laws(experts, observation, composition, state, kappa, meter, chosen):
        race = torch.empty(log_probs.shape).exponential_(1, generator=generator)  # argmax p / race is a draw from p
        drawn[found.sequence, found.position] = (log_probs.exp() / race).argmax(-1)
    return drawn


def laws(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    state: Tensor,
    kappa: float,
    meter: Meter,
    chosen: Tensor | None = None,
) -> Iterator[tuple[Predictions, Tensor]]:
    """What the composition predicts of lost positions (of those ``chosen``) in a state (N, L) at a time."""
    team = Team([FixedTimeExpert(expert, kappa) for expert in experts], meter)
    team.check(observation)
    wanted = observation.hidden if chosen is None else observation.hidden & chosen
    read = team.read(
        state,
        torch.zeros_like(wanted)[:, None],
        wanted[:, None],
        excerpt=observation.excerpt,
        active=composition.asked(),
    )
    for found in read:
        yield found, composition.log_probs(found.log_probs, found.sequence, found.position)
