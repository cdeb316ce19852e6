"""Pipeline for lost and overwritten bytes: find the damage, decode it, and select what is left unfilled."""

from dataclasses import dataclass, replace

import numpy as np

from conservator.alignment import choose_lengths
from conservator.arrays import Ints
from conservator.channels import Channel, as_channel
from conservator.documents import DamagedDocument, read_damaged
from conservator.errors import OptionError
from conservator.experts import Cost, Expert, Team
from conservator.field import SubsampledBayes, choose_experts
from conservator.options import ANY_CHARACTER, are_marks_characters
from conservator.pipelines.character_widths import CharacterWidths, infer_widths, unit_of_marks
from conservator.pipelines.decoding import Decoding, channel_observation, infer_and_decode, observe
from conservator.pipelines.edits import find_gaps, make_edits
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.undetermined import select_unfilled
from conservator.results import Notice, Restoration
from conservator.results.notices import domain_notice, time_limit_notice
from conservator.vocabularies import BYTES


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


def read_damage(task: PipelineTask) -> Damage:
    """Find the damage of a document; raise an OptionError for options that do not fit together."""
    options = task.options
    channel = as_channel(options.channel, BYTES.size)
    damaged = read_damaged(
        task.document.data,
        mark=options.mark,
        gap=options.gap_markers,
        fixed=task.fixed,
        pins=task.pins,
        fixes_visible=channel.may_overwrite,
    )
    if task.references.index is not None and not options.memory:
        raise OptionError("references", "references have no effect without the memory; set memory=True")
    if options.words and not options.memory:
        raise OptionError("words", "words have no effect on lost bytes without the memory; set memory=True")
    return Damage(damaged, channel, bool(channel_observation(damaged, channel).uncertain.any()))


def restore_bytes(task: PipelineTask) -> Restoration:
    """Restore a document that has lost bytes or gaps, or any byte of which may be wrong."""
    damage = read_damage(task)
    options, models, is_uncertain = task.options, task.models, damage.is_uncertain
    damaged = damage.damaged if is_uncertain else damage.damaged.check_utf8(options.lost)
    lost_unit = unit_of_marks(damaged, options.lost, is_uncertain=is_uncertain)
    widths: CharacterWidths | None = None
    with task.meter.measure() as spent:
        if lost_unit == ANY_CHARACTER:
            widths = infer_widths(damaged, task.references, use_words=options.memory)
            damaged = damaged.with_widths(widths.widths)
            damage = replace(damage, channel=widths.channel(damaged))
        experts = select_experts(task, replace(damage, damaged=damaged))
        damaged = choose_gap_lengths(task, damaged, experts, is_uncertain=is_uncertain)
        channel = damage.channel if widths is None else widths.channel(damaged)
        document_experts = models.document_experts(task.references, options)
        decoding = None
        if len(damaged.tokens) and (is_uncertain or len(damaged.lost)):
            whole = channel_observation(damaged, channel)
            team = Team([*experts, *(expert.condition(whole) for expert in document_experts)], task.meter)
            observation = observe(damaged, channel, team, options.evidence_radius, everywhere=is_uncertain)
            radius = None if is_uncertain else options.evidence_radius
            engine = models.engine or SubsampledBayes(evidence_radius=radius, choose_experts=models.select)
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
    if decoding is None:
        names = (*(expert.spec.name for expert in experts), *(expert.spec.name for expert in document_experts))
        return build_untouched(
            task, damaged, names, spent.cost, lost_unit, has_memory=options.memory, ungated=len(experts)
        )
    text = decoding.text if widths is None else widths.scale_confidence(damaged, decoding.positions, decoding.text)
    unfilled, notices = select_unfilled(
        damaged, decoding.positions, text, options, are_characters=lost_unit == ANY_CHARACTER
    )
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
    unit, edit_confidence = "byte", decoding.text.confidence
    if are_marks_characters(lost_unit) or lost_unit == ANY_CHARACTER:  # the first byte of each character counts
        is_first = (decoding.text.tokens & 0xC0) != 0x80
        unit, is_counted = "character", is_counted & is_first
        edit_confidence = np.where(is_first, edit_confidence, 1.0)
    return Restoration(
        observed=task.document.data,
        edits=make_edits(
            damaged,
            decoding.positions,
            decoding.text.tokens,
            edit_confidence,
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
    if not task.models.select or not len(damaged.tokens) or not len(damaged.gaps):
        return frozen  # the engine selects experts; here, gap lengths need them before
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
