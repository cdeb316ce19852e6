"""Restore a document in stages, each of which restores one kind of damage.

    OCR errors:  lost characters (if marks are characters) -> OCR errors -> gaps and lost bytes
    otherwise:   lost characters (if marks are characters) -> gaps, lost and uncertain bytes

A stage restores the whole document; the edits of the stages before it are pinned, so they are visible text for it. The
result has the edits of all stages.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from conservator.channels import EditChannel, as_edit_channel
from conservator.documents import Pin, encode_fixed
from conservator.errors import OptionError
from conservator.experts import OutOfTimeError
from conservator.options import ANY_CHARACTER, are_marks_characters
from conservator.pipelines.correction import correct
from conservator.pipelines.lost_bytes import read_damage, restore_bytes
from conservator.pipelines.lost_characters import detect_lost_characters, restore_characters
from conservator.pipelines.task import PipelineTask
from conservator.results import Restoration
from conservator.results.notices import time_limit_notice

BYTE_PIPELINE = (ANY_CHARACTER, "bytes", "invalid")  # values of the option lost for marks that ``restore_bytes`` fills
Stage = Callable[[PipelineTask], Restoration]


def restore_in_stages(task: PipelineTask) -> Restoration:
    """Restore a document with the stages that its damage needs.

    At the time limit, the result has the edits of the stages that were reached.

    Raises:
        OutOfTimeError: the first stage has no result.
    """
    edit_channel = as_edit_channel(task.options.channel)
    if edit_channel is None and task.document.ocr_confidence is not None:
        problem = f"needs an OCR channel, such as channel='ocr', got {task.options.channel!r}"
        raise OptionError("ocr_confidence", problem)
    if edit_channel is None:
        stages = select_stages(task)
    else:  # any text may be wrong, so fixed texts may replace visible text
        task = replace(task, fixed=(), pins=encode_fixed(task.fixed, len(task.document.data)))
        stages = select_ocr_stages(task, edit_channel)
    first, *others = stages
    result = first(task)
    for stage in others:
        pins = pins_of(result)
        try:
            result = merge(result, stage(replace(task, pins=sorted([*task.pins, *pins]))), pins)
        except OutOfTimeError as error:
            notices = (*result.notices, *time_limit_notice(error.stage, 0, "byte"))
            return replace(result, out_of_time=error.stage, notices=notices)
    return result


def select_stages(task: PipelineTask) -> Iterator[Stage]:
    """Yield the stages for a document whose known bytes stay, or of which any byte may be wrong."""
    damage = read_damage(task)
    text = detect_lost_characters(task, damage)
    if text is not None:
        yield lambda task: restore_characters(task, text)
    if text is None or damage.is_uncertain or len(damage.damaged.gaps):
        yield restore_bytes


def select_ocr_stages(task: PipelineTask, channel: EditChannel) -> Iterator[Stage]:
    """Yield the stages for a document with OCR errors."""
    options = task.options
    if are_marks_characters(options.lost):
        yield from select_stages(replace(task, options=replace(options, channel="mask", gap=None)))
    yield lambda task: correct(task, channel)
    masked = replace(task, options=replace(options, channel="mask"))
    damaged = read_damage(masked).damaged
    has_lost_bytes = options.lost in BYTE_PIPELINE and len(damaged.check_utf8(options.lost).lost) > 0
    if has_lost_bytes or len(damaged.gaps):
        yield restore_masked


def restore_masked(task: PipelineTask) -> Restoration:
    """Restore gaps and lost bytes of a document whose OCR errors are corrected; other marks are left as they are."""
    options = replace(task.options, channel="mask")
    left: dict[tuple[int, int], bytes] = {}
    if options.lost not in BYTE_PIPELINE:
        done = [(start, stop) for start, stop, _ in task.pins]
        marks = re.finditer(re.escape(options.mark.encode()), task.document.data)
        left = {
            match.span(): match[0]
            for match in marks
            if not any(start < match.end() and match.start() < stop for start, stop in done)
        }
    pins = [*task.pins, *((*span, data) for span, data in left.items())]
    result = restore_bytes(replace(task, options=options, pins=pins))
    return replace(result, edits=tuple(edit for edit in result.edits if edit.span not in left))


def pins_of(result: Restoration) -> tuple[Pin, ...]:
    """Return the edits of a result as pins, without the texts that the user fixed."""
    return tuple((*edit.span, edit.written()) for edit in result.changes)


def merge(first: Restoration, second: Restoration, pins: tuple[Pin, ...]) -> Restoration:
    """Return the result of two stages.

    Args:
        first: The result of the first stage.
        second: The result of the second stage.
        pins: The edits of the first stage, which the second one repeats as fixed texts.
    """
    pinned = {(start, stop) for start, stop, _ in pins}
    others = [edit for edit in second.edits if edit.span not in pinned]
    names = tuple(name for name in first.experts if name not in second.experts)
    ungated = len(second.experts) if second.ungated is None else second.ungated
    merged = replace(
        second,
        edits=tuple(sorted([*first.changes, *others], key=lambda edit: edit.span)),
        experts=(*names, *second.experts),
        ungated=len(names) + ungated,
        channels=(*first.channels, *second.channels),
        rate=first.rate if second.rate is None else second.rate,
        lost_unit=first.lost_unit if first.unit == "character" else second.lost_unit,
        out_of_time=first.out_of_time or second.out_of_time,
        notices=tuple(dict.fromkeys([*first.notices, *second.notices])),
        cost=first.cost + second.cost,
        precision={**first.precision, **second.precision},
    )
    # Positions of the second result -> positions of the merged result. They differ after unfilled markers.
    shift, is_pinned = np.zeros(second.length + 1, dtype=np.int64), np.zeros(second.length, dtype=bool)
    lengths = {edit.span: len(edit.data) for edit in first.changes}
    for edit, (start, stop) in zip(second.edits, second.ranges, strict=True):
        if edit.span in pinned:
            is_pinned[start:stop] = True
            shift[stop] += lengths[edit.span] - (stop - start)
    shift = np.cumsum(shift)
    rows = ~is_pinned[second.positions]
    others_read = second.positions[rows]
    columns = [merged.experts.index(name) for name in first.experts]
    read_field = np.zeros((len(others_read), len(merged.experts)))
    if second.read_field is not None:
        read_field[:, len(names) :] = second.read_field[rows]
    parts = [
        (
            others_read + shift[others_read],
            second.read_confidence[rows],
            read_field,
            np.where(second.read_regions[rows] >= 0, second.read_regions[rows] + len(names), -1),
        )
    ]
    range_of = {edit.span: merged_range for edit, merged_range in zip(merged.edits, merged.ranges, strict=True)}
    for edit, (start, stop) in zip(first.edits, first.ranges, strict=True):
        if not edit.is_fixed:
            first_field = np.zeros((stop - start, len(merged.experts)))
            first_field[:, columns] = first.field[start:stop]
            positions = np.arange(*range_of[edit.span])
            parts.append((positions, first.confidence[start:stop], first_field, np.full(stop - start, -1)))
    positions, confidence, field, regions = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(positions, kind="stable")
    return replace(
        merged,
        gaps=tuple(
            replace(gap, at=(gap.at[0] + int(shift[gap.at[0]]), gap.at[1] + int(shift[gap.at[0]])))
            for gap in second.gaps
        ),
        positions=positions[order],
        read_confidence=confidence[order],
        read_field=field[order],
        read_regions=regions[order],
    )
