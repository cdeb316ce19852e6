"""Infer the weights of gated experts from a subset of the visible positions, which is hidden at once."""

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
from conservator.field.gate import (
    GATE_WEIGHTS,
    INVERSE_TEMPERATURES,
    Gate,
    classes_of,
    fit_gate,
    fit_inverse_temperature,
    pools_by_weight,
)
from conservator.field.sampling import positions_of


@dataclass(frozen=True)
class GateSampleConfig:
    """The positions from which gates are inferred."""

    hidden_period: int = 6  # positions: one of this number of sampled positions is hidden [untuned]
    max_shifts: int = 64  # shifts: random shifts of the lost positions [untuned]
    span_positions: int = 384  # positions: length of a span [untuned]
    margin_positions: int = 48  # positions: context on either side of a span [untuned]
    min_spans: int = 3  # spans: evenly spread over the sequence, at least [untuned]
    max_spans: int = 24  # spans: at most [LOG: word-expert]
    period_positions: int = 2048  # positions: a span for this number of positions where evidence is gathered [untuned]


CONFIG = GateSampleConfig()


def with_gates(
    inferred: Inferred, team: Team, observation: Observation, scored: Tensor, generator: torch.Generator
) -> Inferred:
    """Add the gated experts, which are the last of the ``team``, to the inferred composition of the others."""
    gates = infer_gates(team, observation, inferred.composition, scored, inferred.error_probs, generator)
    return replace(
        inferred,
        composition=replace(inferred.composition, gates=gates),
        field=functional.pad(inferred.field, (0, len(gates))),
        regions=functional.pad(inferred.regions, (0, len(gates))),
    )


def infer_gates(
    team: Team,
    observation: Observation,
    composition: Composition,
    scored: Tensor,
    error_probs: Tensor,
    generator: torch.Generator,
) -> tuple[Gate, ...]:
    """Infer the weights of the gated experts of a team one after the other, given the composition of the others.

    Args:
        team: its last experts are gated.
        observation: (N, L).
        composition: of the other experts.
        scored: (N, L) True where evidence is gathered.
        error_probs: (N, L) the probability that an observed token is wrong.
        generator: draws the positions that are hidden.
    """
    sample = spread_sample(~observation.lost & scored, observation, count_spans(int(scored.any(dim=0).sum())))
    pattern = hide_like_damage(observation, sample, generator)[:, None]
    hidden = hide(pattern, observation, error_probs, generator)
    batches = []
    predicted = team.read(
        observation.tokens,
        hidden,
        pattern,
        excerpt=observation.excerpt,
        active=functional.pad(composition.active_experts(), (0, team.gated), value=True),
        margin=CONFIG.margin_positions,
    )
    first = len(team) - team.gated
    for predictions in predicted:
        index = (predictions.sequence, predictions.position)
        composed = composition.log_probs(predictions.log_probs[:first], *index)
        batches.append((observation[index], composed, predictions.log_probs[first:]))
    gates: list[Gate] = []
    priors = [expert.spec.gate_prior for expert in team.experts[first:] if expert.spec.gate_prior is not None]
    for number, prior in enumerate(priors):
        evidence, classes = [np.zeros((0, len(GATE_WEIGHTS)))], [np.zeros(0, dtype=np.int64)]
        for observed, composed, gated in batches:
            evidence.append(log_evidence(observed, pools_by_weight(composed, gated[number])).numpy())
            classes.append(classes_of(composed, gated[number]).numpy())
        gate = fit_gate(np.concatenate(evidence), np.concatenate(classes), prior)
        gates.append(gate)
        batches = [(observed, gate.log_probs(composed, gated[number]), gated) for observed, composed, gated in batches]
    if batches:
        tempered = torch.cat([log_evidence(observed, at_temperatures(composed)) for observed, composed, _ in batches])
        gates[-1] = replace(gates[-1], inverse_temperature=fit_inverse_temperature(tempered.numpy()))
    return tuple(gates)


def log_evidence(observed: Observation, candidates: Iterable[Tensor]) -> Tensor:
    """Return (n, k) the log-likelihood of n observations under each of k distributions (n, V)."""
    return torch.stack([observed.likelihood.log_evidence(log_probs).double() for log_probs in candidates], dim=-1)


def at_temperatures(log_probs: Tensor) -> Iterator[Tensor]:
    """Yield the distribution (n, V) at each candidate inverse temperature."""
    for power in INVERSE_TEMPERATURES.tolist():
        yield torch.log_softmax(power * log_probs, dim=-1)


def hide_like_damage(observation: Observation, sample: Tensor, generator: torch.Generator) -> Tensor:
    """Return (N, L) the subset of a ``sample`` that is hidden, about one of ``hidden_period`` positions.

    The lost positions are shifted by random distances, so that runs of lost positions are hidden as runs. If too few
    positions are lost for that, the subset is drawn at random.
    """
    positions, excerpt = positions_of(observation), observation.excerpt
    lost = torch.zeros(len(sample), len(positions) if excerpt is None else excerpt.length, dtype=torch.bool)
    lost[:, positions] = observation.lost
    hidden = torch.zeros_like(sample)
    for _ in range(CONFIG.max_shifts):
        distance = int(torch.randint(1, lost.shape[1] + 1, (1,), generator=generator))
        hidden |= lost.roll(distance, dims=1)[:, positions] & sample
        if CONFIG.hidden_period * hidden.sum() >= sample.sum():
            return hidden
    return hidden | Folds(CONFIG.hidden_period).draw(sample, generator, excerpt)[:, 0]


def count_spans(positions: int) -> int:
    """Return the number of spans of the sample for a number of positions where evidence is gathered."""
    return min(max(positions // CONFIG.period_positions, CONFIG.min_spans), CONFIG.max_spans)


def spread_sample(eligible: Tensor, observation: Observation, max_spans: int) -> Tensor:
    """Return the ``eligible`` positions (N, L) in at most ``max_spans`` evenly spread spans."""
    span_index = positions_of(observation) // CONFIG.span_positions
    spans = span_index[eligible.any(dim=0)].unique()
    chosen = spans[torch.linspace(0, len(spans) - 1, min(len(spans), max_spans)).round().long()]
    return eligible & torch.isin(span_index, chosen)
