"""Pipeline for lost bytes: infer the weights of the experts, decode, rescore, and select what is left unfilled."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Channel, Excerpt, Observation
from conservator.decoders import Candidate, DecodedText, best_candidates, decode_text
from conservator.decoders.alternatives import MAX_WINDOW_POSITIONS
from conservator.documents import DamagedDocument
from conservator.experts import Cost, Expert, MemoryExpert, MemorySource, OutOfTimeError, Team
from conservator.experts.causal import CausalExpert
from conservator.experts.windows import excerpt_around
from conservator.field import Engine, Outcome
from conservator.numerics import runs
from conservator.options import RestoreOptions
from conservator.pipelines.rescoring import Rescorer, RescoringResult
from conservator.results import (
    Notice,
    Restoration,
    byte_odds,
    find_mostly_lost,
    find_unfilled,
    lost_characters_notice,
    mostly_lost_notice,
    scale_odds,
)
from conservator.vocabularies import BYTES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MIN_MEMORY_WEIGHT = 0.25  # weight: from here on the memory counts as the provenance of a byte [untuned]
# probability: marks that may be characters of several bytes are unfilled below this [LOG: undetermined-text]
MIN_BYTE_CONFIDENCE = 0.5


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
    lost, tokens = damaged.lost, torch.from_numpy(damaged.tokens)
    excerpt: Excerpt | None = None
    if evidence_radius is not None and not everywhere and len(tokens) > team.context:
        excerpt = excerpt_around(
            lost, evidence_radius, max(evidence_radius, MAX_WINDOW_POSITIONS), len(tokens), team.context
        )
        if len(excerpt.positions) == len(tokens):
            excerpt = None
        else:
            tokens = tokens[excerpt.positions]
    return channel.observe(tokens[None], excerpt)


def infer_and_decode(
    team: Team,
    damaged: DamagedDocument,
    observation: Observation,
    engine: Engine,
    rescorer: Rescorer | None,
    options: RestoreOptions,
    generator: torch.Generator,
    *,
    active_only: bool = False,
) -> Restoration:
    """Infer the composition of an observation, and decode it.

    At the time limit, the result keeps the stages that were finished.

    Args:
        team: The experts.
        damaged: The damaged document.
        observation: The document, or an excerpt of it.
        engine: Infers the composition.
        rescorer: Rescores bytes with low confidence; None disables rescoring.
        options: Options of the restoration.
        generator: Source of all randomness.
        active_only: Whether the result lists only experts with non-zero weight, and the memory.
    """
    with team.meter.stage("inferring"):
        inferred = engine(team, observation, generator)
    with team.meter.stage("decoding"):
        decoded = decode_text(team, observation, inferred, generator)
    excerpt = observation.excerpt
    positions = np.arange(len(damaged.tokens)) if excerpt is None else excerpt.positions.numpy()
    rescoring: RescoringResult | None = None
    out_of_time = decoded.out_of_time
    alternatives: list[tuple[Candidate, ...]] = []
    try:
        if rescorer is not None and out_of_time is None:
            with team.meter.stage("rescoring"):
                rescoring = rescorer(damaged, positions, decoded, team.meter)
            decoded = rescoring.decoded
        if options.alternatives and out_of_time is None:
            with team.meter.stage("alternatives"):
                alternatives = best_candidates(team, observation, inferred, decoded, options.alternatives)
            if rescoring is not None:
                alternatives = rescoring.alternatives(positions, observation.lost[0].numpy(), alternatives)
            alternatives = scale_by_length(damaged, positions, observation.lost[0].numpy(), alternatives)
    except OutOfTimeError as error:
        out_of_time = error.stage
    outcome = inferred.outcomes[0] if inferred.outcomes else Outcome()
    field = inferred.field[0].numpy()
    listed = list(range(len(team)))
    if active_only:
        listed = [index for index in listed if field[:, index].any() or team.experts[index].spec.is_retrieval]
    if inferred.composition.gate is not None:
        field = (1 - decoded.memory_weight)[:, None] * field
        field[:, -1] = decoded.memory_weight
    regions = inferred.regions[0][:, listed].argmax(-1).masked_fill(~inferred.scored[0], -1)
    names, listed_field = [team.names[index] for index in listed], field[:, listed]
    unfilled = positions[decoded.not_predicted]
    notices: tuple[Notice, ...] = ()
    if team.vocabulary.fingerprint == BYTES.fingerprint:  # otherwise each token is a character
        decoded, unfilled, notices = select_unfilled(damaged, positions, decoded, options)
    if rescorer is not None and rescoring is not None:
        names, listed_field = add_language_models(
            names, listed_field, rescorer, rescoring, has_memory=team.is_retrieval
        )
    return Restoration(
        damaged=damaged,
        experts=tuple(names),
        has_memory=team.is_retrieval,
        positions=positions,
        read_tokens=decoded.tokens,
        read_confidence=decoded.confidence,
        read_field=listed_field,
        read_regions=regions.numpy(),
        unfilled_positions=unfilled,
        alternatives=tuple(alternatives),
        provenance=find_provenance(team, damaged, positions, decoded, field),
        cross_entropy=outcome.cross_entropy,
        cross_entropy_error=outcome.cross_entropy_error,
        local_gain=outcome.local_gain,
        out_of_time=out_of_time,
        reported=notices,
        cost=Cost(),
        precision=precision_by_name([*team.experts, *(rescorer.experts if rescorer is not None else ())]),
    )


def precision_by_name(experts: Iterable[Expert | CausalExpert]) -> dict[str, str]:
    """Return name -> number format of each pretrained expert."""
    return {expert.spec.name: expert.spec.precision for expert in experts if expert.spec.precision}


def scale_by_length(
    damaged: DamagedDocument, positions: Ints, lost: NDArray[np.bool_], alternatives: list[tuple[Candidate, ...]]
) -> list[tuple[Candidate, ...]]:
    """Multiply the probability of each candidate by that of the chosen lengths of its gaps.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        lost: (n,) True at lost positions.
        alternatives: Candidates of each run of lost positions.
    """
    if damaged.length_probability is None:
        return alternatives
    scaled = []
    for (start, stop), candidates in zip(runs(lost), alternatives, strict=True):
        gaps = np.unique(damaged.gap_of(positions[start:stop]))
        length_prob = float(damaged.length_probability[gaps[gaps >= 0]].prod())
        scaled.append(
            tuple(replace(candidate, probability=candidate.probability * length_prob) for candidate in candidates)
        )
    return scaled


def select_unfilled(
    damaged: DamagedDocument, positions: Ints, decoded: DecodedText, options: RestoreOptions
) -> tuple[DecodedText, Ints, tuple[Notice, ...]]:
    """Return the decoded text with its final confidence, the positions that stay unfilled, and notices about them.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read.
        decoded: The decoded text at these positions.
        options: Options of the restoration.
    """
    min_confidence, min_gap_confidence = options.min_confidence, options.min_gap_confidence
    if options.fill_undetermined:
        unfilled = find_unfilled(damaged, positions, decoded, min_confidence, min_gap_confidence=min_gap_confidence)
        return decoded, unfilled, ()
    mostly_lost, odds = find_mostly_lost(damaged.tokens)[positions], np.ones(len(positions))
    if options.lost in ("auto", "bytes"):
        odds = byte_odds(damaged.tokens)[positions]
    lost = damaged.tokens[positions] == BYTES.mask
    character = np.cumsum((decoded.tokens & 0xC0) != 0x80)
    joint_odds = odds ** np.bincount(character, weights=lost)[character]  # all marks of a character stand for bytes
    decoded = replace(decoded, confidence=scale_odds(decoded.confidence, np.where(lost, joint_odds, 1.0)))
    is_character = lost & (odds < 1) & (decoded.confidence < MIN_BYTE_CONFIDENCE)
    unfilled = find_unfilled(
        damaged,
        positions,
        decoded,
        min_confidence,
        min_gap_confidence=min_gap_confidence,
        undetermined=mostly_lost | is_character,
    )
    mostly_lost &= np.isin(positions, unfilled)
    is_character &= np.isin(positions, unfilled) & ~mostly_lost
    notices = (
        *mostly_lost_notice(count_markers(damaged, positions[mostly_lost])),
        *lost_characters_notice(count_markers(damaged, positions[is_character])),
    )
    return decoded, unfilled, notices


def count_markers(damaged: DamagedDocument, positions: Ints) -> int:
    """Count the marks and gap markers at lost ``positions`` (k,); a lost byte without a mark counts as one."""
    markers = damaged.marker_of(positions)
    return len(np.unique(markers[markers >= 0])) + int((markers < 0).sum())


def find_provenance(
    team: Team, damaged: DamagedDocument, positions: Ints, decoded: DecodedText, field: Floats
) -> dict[int, MemorySource]:
    """Return position -> the text and line that the memory copied from, for lost bytes with a large memory weight."""
    memory = team.experts[-1]
    if not isinstance(memory, MemoryExpert):
        return {}
    tokens = damaged.tokens.astype(np.int64)
    tokens[positions] = decoded.tokens
    copied = positions[(field[:, -1] >= MIN_MEMORY_WEIGHT) & (damaged.tokens[positions] == BYTES.mask)]
    sources = memory.sources(tokens, copied)
    return {position: source for position, source in zip(copied.tolist(), sources, strict=True) if source is not None}


def add_language_models(
    names: list[str], field: Floats, rescorer: Rescorer, rescoring: RescoringResult, *, has_memory: bool
) -> tuple[list[str], Floats]:
    """Insert the language models before the memory, in the names of the experts and in the field (n, m)."""
    last = len(names) - has_memory
    field = (1 - rescoring.weights.sum(axis=1, keepdims=True)) * field
    models = [expert.spec.name for expert in rescorer.experts]
    return [*names[:last], *models, *names[last:]], np.hstack([field[:, :last], rescoring.weights, field[:, last:]])
