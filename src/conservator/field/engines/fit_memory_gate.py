"""Infer the weight of the retrieval expert from a subset of the visible positions, which is hidden at once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred
from conservator.field.folds import Folds, hide
from conservator.field.memory_gate import (
    INVERSE_TEMPERATURES,
    MEMORY_WEIGHTS,
    MemoryGate,
    classes_of,
    fit_inverse_temperature,
    fit_memory_gate,
    pools_by_weight,
)
from conservator.field.sampling import positions_of


@dataclass(frozen=True)
class GateSampleConfig:
    """The positions from which the memory gate is inferred."""

    hidden_period: int = 6  # positions: one of this number of sampled positions is hidden [untuned]
    max_shifts: int = 64  # shifts: random shifts of the lost positions [untuned]
    span_positions: int = 384  # positions: length of a span [untuned]
    margin_positions: int = 48  # positions: context on either side of a span [untuned]
    max_spans: int = 3  # spans: evenly spread over the sequence [untuned]


CONFIG = GateSampleConfig()


def with_memory_gate(
    inferred: Inferred, team: Team, observation: Observation, scored: Tensor, generator: torch.Generator
) -> Inferred:
    """Add the retrieval expert, which is the last of the ``team``, to the inferred composition of the others."""
    gate = infer_memory_gate(team, observation, inferred.composition, scored, inferred.error_probs, generator)
    return replace(
        inferred,
        composition=replace(inferred.composition, gate=gate),
        field=functional.pad(inferred.field, (0, 1)),
        regions=functional.pad(inferred.regions, (0, 1)),
    )


def infer_memory_gate(
    team: Team,
    observation: Observation,
    composition: Composition,
    scored: Tensor,
    error_probs: Tensor,
    generator: torch.Generator,
) -> MemoryGate:
    """Infer the weight of the retrieval expert of a team, given the composition of the others.

    Args:
        team: its last expert is the retrieval expert.
        observation: (N, L).
        composition: of the other experts.
        scored: (N, L) True where evidence is gathered.
        error_probs: (N, L) the probability that an observed token is wrong.
        generator: draws the positions that are hidden.
    """
    sample = spread_sample(~observation.lost & scored, observation, CONFIG.max_spans)
    pattern = hide_like_damage(observation, sample, generator)[:, None]
    hidden = hide(pattern, observation, error_probs, generator)
    batches = []
    predicted = team.read(
        observation.tokens,
        hidden,
        pattern,
        excerpt=observation.excerpt,
        active=functional.pad(composition.active_experts(), (0, 1), value=True),
        margin=CONFIG.margin_positions,
    )
    for predictions in predicted:
        index = (predictions.sequence, predictions.position)
        composed = composition.log_probs(predictions.log_probs[:-1], *index)
        batches.append((observation[index], composed, predictions.log_probs[-1]))
    if not batches:
        return fit_memory_gate(np.zeros((0, len(MEMORY_WEIGHTS))), np.zeros(0, dtype=np.int64))
    evidence = torch.cat([log_evidence(observed, pools_by_weight(*log_probs)) for observed, *log_probs in batches])
    classes = torch.cat([classes_of(*log_probs) for _, *log_probs in batches])
    gate = fit_memory_gate(evidence.numpy(), classes.numpy())
    gated = [(observed, gate.log_probs(*log_probs)) for observed, *log_probs in batches]
    tempered = torch.cat([log_evidence(observed, at_temperatures(log_probs)) for observed, log_probs in gated])
    return replace(gate, inverse_temperature=fit_inverse_temperature(tempered.numpy()))


def log_evidence(observed: Observation, candidates: Iterable[Tensor]) -> Tensor:
    """Return (n, k) the log-likelihood of n observations under each of k distributions (n, V)."""
    return torch.stack([observed.likelihood.log_evidence(log_probs).double() for log_probs in candidates], dim=-1)


def at_temperatures(log_probs: Tensor) -> Iterator[Tensor]:
    """Yield the distribution (n, V) at each candidate inverse temperature."""
    for power in INVERSE_TEMPERATURES.tolist():
        yield torch.log_softmax(power * log_probs, dim=-1)


def hide_like_damage(observation: Observation, sample: Tensor, generator: torch.Generator) -> Tensor:
    """Return (N, L) the subset of a ``sample`` that is hidden, about one of ``hidden_period`` positions.

    The lost positions are shifted by random distances, so that runs of lost positions are hidden as runs. If no
    position is lost, the subset is drawn at random.
    """
    if not observation.lost.any():
        return Folds(CONFIG.hidden_period).draw(sample, generator, observation.excerpt)[:, 0]
    positions, excerpt = positions_of(observation), observation.excerpt
    lost = torch.zeros(len(sample), len(positions) if excerpt is None else excerpt.length, dtype=torch.bool)
    lost[:, positions] = observation.lost
    hidden = torch.zeros_like(sample)
    for _ in range(CONFIG.max_shifts):
        distance = int(torch.randint(1, lost.shape[1] + 1, (1,), generator=generator))
        hidden |= lost.roll(distance, dims=1)[:, positions] & sample
        if CONFIG.hidden_period * hidden.sum() >= sample.sum():
            break
    return hidden


def spread_sample(eligible: Tensor, observation: Observation, max_spans: int) -> Tensor:
    """Return the ``eligible`` positions (N, L) in at most ``max_spans`` evenly spread spans."""
    span_index = positions_of(observation) // CONFIG.span_positions
    spans = span_index[eligible.any(dim=0)].unique()
    chosen = spans[torch.linspace(0, len(spans) - 1, min(len(spans), max_spans)).round().long()]
    return eligible & torch.isin(span_index, chosen)
