"""Infer the weights of the experts for a document with lost bytes or characters, decode it, and rescore it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.channels import Channel, Observation, Status
from conservator.decoders import (
    Candidate,
    DecodedText,
    best_candidates,
    changed_tokens,
    decode_text,
    locate_errors,
    with_loss_rates,
)
from conservator.decoders.alternatives import MAX_WINDOW_POSITIONS
from conservator.decoders.error_location import CONFIG as LOCATION
from conservator.documents import DamagedDocument
from conservator.experts import Expert, MemoryExpert, MemorySource, OutOfTimeError, Team
from conservator.experts.causal import CausalExpert
from conservator.experts.windows import excerpt_around
from conservator.field import Engine, Outcome
from conservator.numerics import runs
from conservator.pipelines.rescoring import RESCORING, Rescorer, RescoringResult, precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.undetermined import keep_observed

MIN_MEMORY_WEIGHT = 0.25  # weight: from here on the memory counts as the provenance of a byte [untuned]


@dataclass(frozen=True)
class Decoding:
    """The text that the experts read, decoded, with n positions and m experts.

    Attributes:
        positions: (n,) positions that were read.
        text: The decoded text at these positions.
        experts: Names of the experts.
        has_memory: Whether the last expert is the memory.
        ungated: Number of experts whose weight does not depend on their confidence; they are the first.
        field: (n, m) weight of each expert.
        regions: (n,) expert whose domain each position belongs to; -1 without evidence.
        alternatives: Best candidates of each run of changed positions, if they were requested.
        provenance: Position -> the text and line that the memory copied its byte from.
        outcome: Outcome of the inference.
        out_of_time: Stage that the time limit interrupted; None if there was enough time.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
    """

    positions: Ints
    text: DecodedText
    experts: tuple[str, ...]
    has_memory: bool
    ungated: int
    field: Floats
    regions: Ints
    alternatives: tuple[tuple[Candidate, ...], ...]
    provenance: dict[int, MemorySource]
    outcome: Outcome
    out_of_time: str | None
    precision: dict[str, str]


def channel_observation(damaged: DamagedDocument, channel: Channel) -> Observation:
    """Return the whole document as an observation (1, L); fixed text is known."""
    observation = channel.observe(torch.from_numpy(damaged.tokens)[None])
    status = observation.status.clone()
    status[0, damaged.fixed_positions] = int(Status.KNOWN)
    return replace(observation, status=status)


def observe(
    damaged: DamagedDocument, channel: Channel, team: Team, evidence_radius: int | None, *, everywhere: bool
) -> Observation:
    """Return the document as an observation (1, L), or an excerpt around the damage if it is too long.

    Args:
        damaged: The damaged document.
        channel: The channel of the damage.
        team: The experts that will read the observation.
        evidence_radius: Evidence is gathered within this many bytes of damage; None: everywhere.
        everywhere: Whether any byte may be wrong, so that all bytes are read.
    """
    length, context = len(damaged.tokens), team.context
    if evidence_radius is None or everywhere or length <= context:
        return channel_observation(damaged, channel)
    excerpt = excerpt_around(damaged.lost, evidence_radius, max(evidence_radius, MAX_WINDOW_POSITIONS), length, context)
    if len(excerpt.positions) == length:
        return channel_observation(damaged, channel)
    return channel.observe(torch.from_numpy(damaged.tokens[excerpt.positions.numpy()])[None], excerpt)


def infer_and_decode(
    task: PipelineTask,
    team: Team,
    damaged: DamagedDocument,
    observation: Observation,
    engine: Engine,
    rescorer: Rescorer | None = None,
    visible_counts: Floats | None = None,
    *,
    active_only: bool = False,
) -> Decoding:
    """Infer the composition of an observation, and decode it.

    At the time limit, the result keeps the stages that were finished.

    Args:
        task: The options, the source of randomness, and the meter.
        team: The experts.
        damaged: The damaged document.
        observation: The document, or an excerpt of it.
        engine: Infers the composition.
        rescorer: Rescores bytes with low confidence; None disables rescoring.
        visible_counts: (V,) number of visible tokens of each kind in the document; None if all are lost equally often.
        active_only: Whether the result lists only experts with non-zero weight, and the memory.
    """
    with team.meter.stage("inferring"):
        if observation.uncertain.any():
            error_prob = LOCATION.decoded_error_prob if rescorer is None else RESCORING.min_error_prob
            observation, inferred = locate_errors(team, observation, engine, task.generator, error_prob)
        else:
            inferred = engine(team, observation, task.generator)
    with team.meter.stage("decoding"):
        decoded = decode_text(team, observation, inferred, visible_counts)
    if decoded.loss_rates is not None:
        observation = with_loss_rates(observation, decoded.loss_rates)
    excerpt = observation.excerpt
    positions = np.arange(len(damaged.tokens)) if excerpt is None else excerpt.positions.numpy()
    rescoring: RescoringResult | None = None
    out_of_time = decoded.out_of_time
    alternatives: list[tuple[Candidate, ...]] = []
    if rescorer is not None and out_of_time is None:
        try:
            with team.meter.stage("rescoring"):
                rescoring = rescorer(damaged, positions, decoded, team.meter, observation)
            decoded = rescoring.decoded
        except OutOfTimeError as error:
            out_of_time = error.stage
    decoded = keep_observed(observation, decoded, task.options.min_confidence)
    if task.options.alternatives and out_of_time is None:
        try:
            with team.meter.stage("alternatives"):
                alternatives = best_candidates(team, observation, inferred, decoded, task.options.alternatives)
            changed = changed_tokens(observation, decoded)
            if rescoring is not None:
                alternatives = rescoring.alternatives(changed, alternatives)
            alternatives = scale_by_length(damaged, positions, changed, alternatives)
        except OutOfTimeError as error:
            out_of_time = error.stage
    field, has_memory = inferred.field[0].numpy(), isinstance(team.experts[-1], MemoryExpert)
    listed = list(range(len(team)))
    if active_only:
        listed = [index for index in listed if field[:, index].any() or team.experts[index].spec.is_gated]
    if inferred.composition.gates:
        field = (1 - decoded.gate_weights.sum(axis=1, keepdims=True)) * field
        field[:, len(team) - team.gated :] = decoded.gate_weights
    regions = inferred.regions[0][:, listed].argmax(-1).masked_fill(~inferred.scored[0], -1)
    decoding = Decoding(
        positions=positions,
        text=decoded,
        experts=tuple(team.names[index] for index in listed),
        has_memory=has_memory,
        ungated=sum(index < len(team) - team.gated for index in listed),
        field=field[:, listed],
        regions=regions.numpy(),
        alternatives=tuple(alternatives),
        provenance=find_provenance(team, damaged, positions, decoded, field),
        outcome=inferred.outcomes[0] if inferred.outcomes else Outcome(),
        out_of_time=out_of_time,
        precision=precision_by_name([*team.experts, *(rescorer.experts if rescorer is not None else ())]),
    )
    if rescorer is None or rescoring is None:
        return decoding
    names, field = add_language_models(decoding, rescorer.experts, rescoring.weights)
    return replace(decoding, experts=names, field=field)


def scale_by_length(
    damaged: DamagedDocument, positions: Ints, changed: NDArray[np.bool_], alternatives: list[tuple[Candidate, ...]]
) -> list[tuple[Candidate, ...]]:
    """Multiply the probability of each candidate by that of the chosen lengths of its gaps.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        changed: (n,) True at changed positions.
        alternatives: Candidates of each run of changed positions.
    """
    if damaged.length_probability is None:
        return alternatives
    scaled = []
    for (start, stop), candidates in zip(runs(changed), alternatives, strict=True):
        gaps = np.unique(damaged.gap_of(positions[start:stop]))
        length_prob = float(damaged.length_probability[gaps[gaps >= 0]].prod())
        scaled.append(
            tuple(replace(candidate, probability=candidate.probability * length_prob) for candidate in candidates)
        )
    return scaled


def find_provenance(
    team: Team, damaged: DamagedDocument, positions: Ints, decoded: DecodedText, field: Floats
) -> dict[int, MemorySource]:
    """Return position -> the text and line that the memory copied from, for changed bytes that it determines."""
    memory = team.experts[-1]
    if not isinstance(memory, MemoryExpert):
        return {}
    tokens = damaged.tokens.astype(np.int64)
    tokens[positions] = decoded.tokens
    copied = positions[(field[:, -1] >= MIN_MEMORY_WEIGHT) & (damaged.tokens[positions] != decoded.tokens)]
    sources = memory.sources(tokens, copied)
    return {position: source for position, source in zip(copied.tolist(), sources, strict=True) if source is not None}


def add_language_models(
    decoding: Decoding, models: Sequence[Expert | CausalExpert], weights: Floats
) -> tuple[tuple[str, ...], Floats]:
    """Insert the language models before the memory; return the names of the experts and the field.

    Args:
        decoding: The decoding without language models, with n positions.
        models: m language models, or other experts that rescored the text.
        weights: (n, m) their weights.
    """
    last = len(decoding.experts) - decoding.has_memory
    field = (1 - weights.sum(axis=1, keepdims=True)) * decoding.field
    names = (*decoding.experts[:last], *(expert.spec.name for expert in models), *decoding.experts[last:])
    return names, np.hstack([field[:, :last], weights, field[:, last:]])
