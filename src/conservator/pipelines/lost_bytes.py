"""Pipeline for lost bytes: infer the weights of the experts, decode, rescore, and select what is left unfilled."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.alignment import choose_lengths
from conservator.arrays import Floats, Ints
from conservator.channels import Channel, Excerpt, Observation, Status, as_channel
from conservator.decoders import Candidate, DecodedText, best_candidates, decode_text, with_loss_rates
from conservator.decoders.alternatives import MAX_WINDOW_POSITIONS
from conservator.documents import DamagedDocument, read_damaged
from conservator.errors import OptionError
from conservator.experts import Cost, Expert, MemoryExpert, MemorySource, OutOfTimeError, Team
from conservator.experts.windows import excerpt_around
from conservator.field import Bayes, Engine, Outcome, SubsampledBayes, choose_experts
from conservator.numerics import runs
from conservator.options import are_marks_characters
from conservator.pipelines.edits import find_gaps, make_edits
from conservator.pipelines.rescoring import Rescorer, RescoringResult, precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.undetermined import select_unfilled
from conservator.results import Notice, Restoration
from conservator.results.notices import domain_notice, time_limit_notice
from conservator.vocabularies import BYTES

MIN_MEMORY_WEIGHT = 0.25  # weight: from here on the memory counts as the provenance of a byte [untuned]


@dataclass(frozen=True)
class Damage:
    """The damage of a document.

    Attributes:
        damaged: The document with its marks and gap markers.
        channel: The channel of the damage.
        is_uncertain: Whether any visible byte may be wrong.
    """

    damaged: DamagedDocument
    channel: Channel
    is_uncertain: bool


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
        alternatives: Best candidates of each run of lost positions, if they were requested.
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


def read_damage(task: PipelineTask) -> Damage:
    """Find the damage of a document; raise an OptionError for options that its channel does not support."""
    options = task.options
    if task.document.ocr_confidence is not None:
        raise OptionError("ocr_confidence", f"needs an OCR channel, such as channel='ocr', got {options.channel!r}")
    channel = as_channel(options.channel, BYTES.size)
    damaged = read_damaged(task.document.data, mark=options.mark, gap=options.gap, fixed=task.fixed)
    if task.references.index is not None and not options.memory:
        raise OptionError("references", "references have no effect without the memory; set memory=True")
    if options.words and not options.memory:
        raise OptionError("words", "words have no effect on lost bytes without the memory; set memory=True")
    is_uncertain = bool((channel.status(torch.from_numpy(damaged.tokens)) == Status.UNCERTAIN).any())
    if is_uncertain and options.alternatives:
        raise OptionError("alternatives", "alternatives need marked gaps; with this channel any byte may change")
    if is_uncertain and options.effort == "best":
        raise OptionError("effort", "'best' rescores marked gaps; with this channel any byte may change, use 'fast'")
    if is_uncertain and task.fixed:
        raise OptionError("fixed", "fixed text needs marked gaps; with this channel any byte may change")
    return Damage(damaged, channel, is_uncertain)


def restore_bytes(task: PipelineTask, damage: Damage) -> Restoration:
    """Restore a document that has lost bytes or gaps, or any byte of which may be wrong."""
    options, models, is_uncertain = task.options, task.models, damage.is_uncertain
    damaged = damage.damaged if is_uncertain else damage.damaged.check_utf8(options.lost)
    with task.meter.measure() as spent:
        experts = select_experts(task, replace(damage, damaged=damaged))
        damaged = choose_gap_lengths(task, damaged, experts, is_uncertain=is_uncertain)
        document_experts = models.document_experts(task.references, options)
        decoding = None
        if len(damaged.tokens) and (is_uncertain or len(damaged.lost)):
            whole = damage.channel.observe(torch.from_numpy(damaged.tokens)[None])
            team = Team([*experts, *(expert.condition(whole) for expert in document_experts)], task.meter)
            observation = observe(damaged, damage.channel, team, options.evidence_radius, everywhere=is_uncertain)
            engine = models.engine or default_engine(task, observation)
            rescorer = models.rescorer(options)
            decoding = infer_and_decode(
                task,
                team,
                damaged,
                observation,
                engine,
                rescorer,
                damaged.visible_counts,
                active_only=models.select,
            )
    lost_unit = "invalid" if options.lost == "invalid" else "bytes"
    if decoding is None:
        names = (*(expert.spec.name for expert in experts), *(expert.spec.name for expert in document_experts))
        return build_untouched(
            task, damaged, names, spent.cost, lost_unit, has_memory=options.memory, ungated=len(experts)
        )
    text, unfilled, notices = select_unfilled(damaged, decoding.positions, decoding.text, options)
    lost_share = len(damaged.lost) / max(1, len(decoding.positions))
    notices += domain_notice(decoding.outcome.cross_entropy, decoding.outcome.cross_entropy_error, lost_share)
    decoding = replace(decoding, text=text)
    return build_restoration(task, damaged, decoding, unfilled, notices, spent.cost, lost_unit)


def build_untouched(
    task: PipelineTask,
    damaged: DamagedDocument,
    experts: tuple[str, ...],
    cost: Cost,
    lost_unit: str,
    *,
    has_memory: bool = False,
    ungated: int | None = None,
) -> Restoration:
    """Return the result for a document without damage, of which nothing was read."""
    return Restoration(
        observed=task.document.data,
        edits=make_edits(damaged),
        experts=experts,
        has_memory=has_memory,
        ungated=ungated,
        lost_unit=lost_unit,
        cost=cost,
        encoding=task.document.encoding,
    )


def build_restoration(
    task: PipelineTask,
    damaged: DamagedDocument,
    decoding: Decoding,
    unfilled: Ints,
    notices: tuple[Notice, ...],
    cost: Cost,
    lost_unit: str,
) -> Restoration:
    """Return the result of a decoding.

    Args:
        task: The document and the options.
        damaged: The damaged document.
        decoding: The decoded text.
        unfilled: (k,) lost positions that are left unfilled.
        notices: Statements about the result.
        cost: Cost of the restoration.
        lost_unit: What each mark stands for.
    """
    is_counted = np.isin(decoding.positions, unfilled)
    unit = "character" if are_marks_characters(lost_unit) else "byte"
    if unit == "character":
        is_counted &= (decoding.text.tokens & 0xC0) != 0x80  # the first byte of each character
    return Restoration(
        observed=task.document.data,
        edits=make_edits(
            damaged,
            decoding.positions,
            decoding.text.tokens,
            decoding.text.confidence,
            unfilled,
            decoding.alternatives,
            decoding.provenance,
        ),
        gaps=find_gaps(damaged),
        experts=decoding.experts,
        has_memory=decoding.has_memory,
        ungated=decoding.ungated,
        positions=decoding.positions,
        read_confidence=decoding.text.confidence,
        read_field=decoding.field,
        read_regions=decoding.regions,
        cross_entropy=decoding.outcome.cross_entropy,
        local_gain=decoding.outcome.local_gain,
        lost_unit=lost_unit,
        out_of_time=decoding.out_of_time,
        notices=(*notices, *time_limit_notice(decoding.out_of_time, int(is_counted.sum()), unit)),
        cost=cost,
        precision=decoding.precision,
        encoding=task.document.encoding,
    )


def select_experts(task: PipelineTask, damage: Damage) -> list[Expert]:
    """Return the experts that do not depend on the document; with ``select``, those with non-negligible weight."""
    frozen, damaged, everywhere = task.models.frozen_experts, damage.damaged, damage.is_uncertain
    has_damage = everywhere or len(damaged.lost) > 0
    if not task.models.select or not len(damaged.tokens) or not (everywhere or len(damaged.gaps)):
        return frozen
    team, evidence_radius = Team(frozen, task.meter), task.options.evidence_radius if has_damage else None
    with task.meter.stage("choosing experts"):
        sample = observe(damaged, damage.channel, team, evidence_radius, everywhere=everywhere)
        return list(choose_experts(team, sample, task.generator, evidence_radius).experts)


def choose_gap_lengths(
    task: PipelineTask, damaged: DamagedDocument, experts: list[Expert], *, is_uncertain: bool
) -> DamagedDocument:
    """Return the document with the most probable length of each gap."""
    if not len(damaged.gaps):
        return damaged
    # Uncertain bytes that are not valid UTF-8 exclude no gap length: they will be changed.
    valid = damaged.check_utf8("invalid") if is_uncertain else damaged
    texts = task.references.memory_texts(damaged) if task.options.memory else []
    with task.meter.stage("lengths"):
        team, options = Team(experts, task.meter), task.options
        lengths = choose_lengths(team, valid, options.max_gap, task.generator, texts, options.words)
    return damaged.with_lengths(*lengths)


def default_engine(task: PipelineTask, observation: Observation) -> Engine:
    """Return the engine for an observation if none was given."""
    radius = task.options.evidence_radius
    if observation.uncertain.any():
        return Bayes(evidence_radius=radius)
    return SubsampledBayes(evidence_radius=radius, choose_experts=task.models.select)


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
        inferred = engine(team, observation, task.generator)
    with team.meter.stage("decoding"):
        decoded = decode_text(team, observation, inferred, task.generator, visible_counts)
    if decoded.loss_rates is not None:
        observation = with_loss_rates(observation, decoded.loss_rates)
    excerpt = observation.excerpt
    positions = np.arange(len(damaged.tokens)) if excerpt is None else excerpt.positions.numpy()
    lost = observation.lost[0].numpy()
    rescoring: RescoringResult | None = None
    out_of_time = decoded.out_of_time
    alternatives: list[tuple[Candidate, ...]] = []
    try:
        if rescorer is not None and out_of_time is None:
            with team.meter.stage("rescoring"):
                rescoring = rescorer(damaged, positions, decoded, team.meter)
            decoded = rescoring.decoded
        if task.options.alternatives and out_of_time is None:
            with team.meter.stage("alternatives"):
                alternatives = best_candidates(team, observation, inferred, decoded, task.options.alternatives)
            if rescoring is not None:
                alternatives = rescoring.alternatives(positions, lost, alternatives)
            alternatives = scale_by_length(damaged, positions, lost, alternatives)
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
    names, listed_field = [team.names[index] for index in listed], field[:, listed]
    if rescorer is not None and rescoring is not None:
        names, listed_field = add_language_models(names, listed_field, rescorer, rescoring, has_memory=has_memory)
    return Decoding(
        positions=positions,
        text=decoded,
        experts=tuple(names),
        has_memory=has_memory,
        ungated=sum(index < len(team) - team.gated for index in listed),
        field=listed_field,
        regions=regions.numpy(),
        alternatives=tuple(alternatives),
        provenance=find_provenance(team, damaged, positions, decoded, field),
        outcome=inferred.outcomes[0] if inferred.outcomes else Outcome(),
        out_of_time=out_of_time,
        precision=precision_by_name([*team.experts, *(rescorer.experts if rescorer is not None else ())]),
    )


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
