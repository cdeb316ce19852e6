"""The weight of an expert that recalls: inferred from a part of the visible positions, hidden at once."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

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
    SHARES,
    SHARPNESS,
    MemoryGate,
    classes_of,
    fit_memory_gate,
    fit_sharpness,
    shared_pools,
)
from conservator.field.sampling import positions_of

HIDDEN = 6  # one of so many positions of a stretch is hidden
MOVES = 64  # the lost positions are moved at most so many times
STRETCH = 384  # positions
MARGIN = 48  # positions that are read on either side of a stretch
STRETCHES = 3  # the most that are read; they are spread over the sequence


def with_memory_gate(
    inferred: Inferred, team: Team, observation: Observation, scored: Tensor, generator: torch.Generator
) -> Inferred:
    """Add the expert that recalls, the last of the ``team``, to the inferred composition of the others."""
    gate = infer_memory_gate(team, observation, inferred.composition, scored, inferred.doubt, generator)
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
    doubt: Tensor,
    generator: torch.Generator,
) -> MemoryGate:
    """Infer how much the last expert of a team is to be trusted, given the composition of the others.

    Args:
        team: the last of its experts recalls.
        observation: (N, L).
        composition: of the other experts.
        scored: (N, L) where evidence is gathered.
        doubt: (N, L) the probability that an observed token is wrong.
        generator: draws which positions are hidden.
    """
    sample = spread(~observation.lost & scored, observation, STRETCHES)
    pattern = like_damage(observation, sample, generator)[:, None]
    hidden = hide(pattern, observation, doubt, generator)
    found = []
    read = team.read(
        observation.tokens,
        hidden,
        pattern,
        excerpt=observation.excerpt,
        active=functional.pad(composition.asked(), (0, 1), value=True),
        margin=MARGIN,
    )
    for part in read:
        composed = composition.log_probs(part.log_probs[:-1], part.sequence, part.position)
        found.append((observation[part.sequence, part.position], composed, part.log_probs[-1]))
    if not found:
        return fit_memory_gate(np.zeros((0, len(SHARES))), np.zeros(0, dtype=np.int64))
    evidence = torch.cat([evidence_of(seen, shared_pools(*laws)) for seen, *laws in found])
    classes = torch.cat([classes_of(*laws) for _, *laws in found])
    gate = fit_memory_gate(evidence.numpy(), classes.numpy())
    together = [(seen, gate.log_probs(*laws)) for seen, *laws in found]
    sharper = torch.cat([evidence_of(seen, sharpened(law)) for seen, law in together])
    return replace(gate, sharpness=fit_sharpness(sharper.numpy()))


def evidence_of(seen: Observation, laws: Iterable[Tensor]) -> Tensor:
    """(n, k) the log-likelihood of what was observed at n positions, under each of k laws (n, V)."""
    return torch.stack([seen.likelihood.log_evidence(law).double() for law in laws], dim=-1)


def sharpened(law: Tensor) -> Iterator[Tensor]:
    """The law (n, V) raised to each power to choose from."""
    for power in SHARPNESS.tolist():
        yield torch.log_softmax(power * law, dim=-1)


def like_damage(observation: Observation, sample: Tensor, generator: torch.Generator) -> Tensor:
    """(N, L) the part of a ``sample`` of an observation that is hidden, about one position of HIDDEN.

    It consists of the lost positions, moved by random distances, so that runs of lost positions are hidden as runs. If
    nothing is lost, it is drawn at random.
    """
    if not observation.lost.any():
        return Folds(HIDDEN).draw(sample, generator, observation.excerpt)[:, 0]
    places, excerpt = positions_of(observation), observation.excerpt
    lost = torch.zeros(len(sample), len(places) if excerpt is None else excerpt.length, dtype=torch.bool)
    lost[:, places] = observation.lost
    found = torch.zeros_like(sample)
    for _ in range(MOVES):
        distance = int(torch.randint(1, lost.shape[1] + 1, (1,), generator=generator))
        found |= lost.roll(distance, dims=1)[:, places] & sample
        if HIDDEN * found.sum() >= sample.sum():
            break
    return found


def stretches_of(observation: Observation) -> Tensor:
    """(L,) which stretch of the sequence each position of an observation (N, L) is in, counted from 0."""
    return positions_of(observation) // STRETCH


def spread(wanted: Tensor, observation: Observation, most: int) -> Tensor:
    """The ``wanted`` positions (N, L) in at most so many stretches, spread evenly over those that have any."""
    stretch = stretches_of(observation)
    found = stretch[wanted.any(dim=0)].unique()
    chosen = found[torch.linspace(0, len(found) - 1, min(len(found), most)).round().long()]
    return wanted & torch.isin(stretch, chosen)
