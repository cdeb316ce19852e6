"""The middle of every restoration: what is read of a document, and what comes of it."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Channel, Excerpt, Observation
from conservator.decoders import Candidate, DecodedText, best_candidates, decode_text
from conservator.decoders.alternatives import MARGIN
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
    leave_open,
    lost_characters,
    mostly_lost,
    with_odds,
)
from conservator.vocabularies import BYTES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
OWED = 0.25  # the weight of the memory from which a byte counts as remembered


def observe(
    damaged: DamagedDocument, channel: Channel, team: Team, evidence_radius: int | None, *, everywhere: bool
) -> Observation:
    """The document as an observation (1, L), or an excerpt of it around the damage if it is too long to read at once.

    Args:
        damaged: the document.
        channel: what it came through.
        team: who will read it.
        evidence_radius: how far from damage evidence is gathered; None gathers it everywhere.
        everywhere: whether any byte may be wrong, so that all are read.
    """
    lost, tokens = damaged.lost, torch.from_numpy(damaged.tokens)
    excerpt: Excerpt | None = None
    if evidence_radius is not None and not everywhere and len(tokens) > team.context:
        excerpt = excerpt_around(lost, evidence_radius, max(evidence_radius, MARGIN), len(tokens), team.context)
        if len(excerpt.positions) == len(tokens):
            excerpt = None
        else:
            tokens = tokens[excerpt.positions]
    return channel.observe(tokens[None], excerpt)


def fill(
    team: Team,
    damaged: DamagedDocument,
    observation: Observation,
    engine: Engine,
    rewriter: Rescorer | None,
    options: RestoreOptions,
    generator: torch.Generator,
    *,
    selects: bool = False,
) -> Restoration:
    """Infer the composition of what was observed, and decode it; if time runs out, what was reached is kept.

    Args:
        team: who reads.
        damaged: the document.
        observation: the document, or an excerpt of it.
        engine: infers the composition.
        rewriter: writes again what is in doubt after that; None for nobody.
        options: how it is restored.
        generator: of all randomness.
        selects: whether only those of the experts that have a say are named, and the memory.
    """
    with team.meter.stage("inferring"):
        inferred = engine(team, observation, generator)
    with team.meter.stage("decoding"):
        decoded = decode_text(team, observation, inferred, generator)
    excerpt = observation.excerpt
    positions = np.arange(len(damaged.tokens)) if excerpt is None else excerpt.positions.numpy()
    again: RescoringResult | None = None
    out_of_time = decoded.out_of_time
    fills: list[tuple[Candidate, ...]] = []
    try:
        if rewriter is not None and out_of_time is None:
            with team.meter.stage("writing again"):
                again = rewriter(damaged, positions, decoded, team.meter)
            decoded = again.decoded
        if options.alternatives and out_of_time is None:
            with team.meter.stage("alternatives"):
                fills = best_candidates(team, observation, inferred, decoded, options.alternatives)
            if again is not None:
                fills = again.fills(positions, observation.lost[0].numpy(), fills)
            fills = with_length(damaged, positions, observation.lost[0].numpy(), fills)
    except OutOfTimeError as error:
        out_of_time = error.stage
    outcome = inferred.outcomes[0] if inferred.outcomes else Outcome()
    field = inferred.field[0].numpy()
    named = list(range(len(team)))
    if selects:  # those that have a say, and the memory
        named = [number for number in named if field[:, number].any() or team.experts[number].spec.is_retrieval]
    if inferred.composition.gate is not None:
        field = (1 - decoded.memory_weight)[:, None] * field
        field[:, -1] = decoded.memory_weight
    regions = inferred.regions[0][:, named].argmax(-1).masked_fill(~inferred.scored[0], -1)
    names, shown = [team.names[number] for number in named], field[:, named]
    opened = positions[decoded.unread]
    reported: tuple[Notice, ...] = ()
    if team.vocabulary.fingerprint == BYTES.fingerprint:  # else each token is a character
        decoded, opened, reported = judge(damaged, positions, decoded, options)
    if rewriter is not None and again is not None:
        names, shown = with_language(names, shown, rewriter, again, is_retrieval=team.is_retrieval)
    return Restoration(
        damaged=damaged,
        experts=tuple(names),
        is_retrieval=team.is_retrieval,
        positions=positions,
        read_tokens=decoded.tokens,
        read_confidence=decoded.confidence,
        read_field=shown,
        read_regions=regions.numpy(),
        open_positions=opened,
        alternatives=tuple(fills),
        provenance=provenance(team, damaged, positions, decoded, field),
        cross_entropy=outcome.cross_entropy,
        cross_entropy_error=outcome.cross_entropy_error,
        local_gain=outcome.local_gain,
        out_of_time=out_of_time,
        reported=reported,
        cost=Cost(),
        precision=precisions([*team.experts, *(rewriter.experts if rewriter is not None else ())]),
    )


def precisions(experts: Iterable[Expert | CausalExpert]) -> dict[str, str]:
    """The number format that each pretrained expert computes in, by its name."""
    return {one.spec.name: one.spec.precision for one in experts if one.spec.precision}


def with_length(
    damaged: DamagedDocument, positions: Ints, lost: NDArray[np.bool_], fills: list[tuple[Candidate, ...]]
) -> list[tuple[Candidate, ...]]:
    """The fills of each run of ``lost`` positions (n,), their probability times that of the lengths of its gaps."""
    if damaged.length_probability is None:
        return fills
    found = []
    for (start, stop), several in zip(runs(lost), fills, strict=True):
        gaps = np.unique(damaged.gap_of(positions[start:stop]))
        length = float(damaged.length_probability[gaps[gaps >= 0]].prod())
        found.append(tuple(replace(one, probability=one.probability * length) for one in several))
    return found


def judge(
    damaged: DamagedDocument, positions: Ints, decoded: DecodedText, options: RestoreOptions
) -> tuple[DecodedText, Ints, tuple[Notice, ...]]:
    """What was decoded, with its final confidence; the positions that are left open; and notices about these.

    Args:
        damaged: the document.
        positions: (n,) the positions that were read.
        decoded: what was decoded there.
        options: how it is restored.
    """
    least, least_gap = options.min_confidence, options.min_gap_confidence
    if options.fill_undetermined:
        return decoded, leave_open(damaged, positions, decoded, least, least_gap=least_gap), ()
    hopeless, odds = find_mostly_lost(damaged.tokens)[positions], np.ones(len(positions))
    if options.lost in ("auto", "bytes"):
        odds = byte_odds(damaged.tokens)[positions]
    lost = damaged.tokens[positions] == BYTES.mask
    character = np.cumsum((decoded.tokens & 0xC0) != 0x80)
    together = odds ** np.bincount(character, weights=lost)[character]  # every mark of a character stands for a byte
    decoded = replace(decoded, confidence=with_odds(decoded.confidence, np.where(lost, together, 1.0)))
    unlikely = lost & (odds < 1) & (decoded.confidence < 0.5)
    undetermined = hopeless | unlikely
    opened = leave_open(damaged, positions, decoded, least, least_gap=least_gap, undetermined=undetermined)
    hopeless &= np.isin(positions, opened)
    unlikely &= np.isin(positions, opened) & ~hopeless
    notices = (
        *mostly_lost(count_signs(damaged, positions[hopeless])),
        *lost_characters(count_signs(damaged, positions[unlikely])),
    )
    return decoded, opened, notices


def count_signs(damaged: DamagedDocument, positions: Ints) -> int:
    """How many marks and gap signs stand at lost ``positions`` (k,); a lost byte that was not marked counts as one."""
    signs = damaged.marker_of(positions)
    return len(np.unique(signs[signs >= 0])) + int((signs < 0).sum())


def provenance(
    team: Team, damaged: DamagedDocument, positions: Ints, decoded: DecodedText, field: Floats
) -> dict[int, MemorySource]:
    """Where the lost bytes that owe much to the memory were remembered from, by position."""
    memory = team.experts[-1]
    if not isinstance(memory, MemoryExpert):
        return {}
    tokens = damaged.tokens.astype(np.int64)
    tokens[positions] = decoded.tokens
    owed = positions[(field[:, -1] >= OWED) & (damaged.tokens[positions] == BYTES.mask)]
    sources = memory.sources(tokens, owed)
    return {place: one for place, one in zip(owed.tolist(), sources, strict=True) if one is not None}


def with_language(
    names: list[str], field: Floats, rewriter: Rescorer, again: RescoringResult, *, is_retrieval: bool
) -> tuple[list[str], Floats]:
    """The names of the experts and the field (n, m), with the language models before the memory."""
    last = len(names) - is_retrieval
    field = (1 - again.shares.sum(axis=1, keepdims=True)) * field
    added = [one.spec.name for one in rewriter.experts]
    return [*names[:last], *added, *names[last:]], np.hstack([field[:, :last], again.shares, field[:, last:]])
