"""Restore a document in stages, each of which restores one kind of damage.

    readings:     several readings are merged, before all other stages
    OCR errors:   lost characters (if marks are characters) -> OCR errors -> gaps and lost bytes
    text channel: the stage of the channel
    otherwise:    lost characters (if marks are characters) -> gaps, lost and uncertain bytes

A stage restores the text that the stage before it wrote, and ``compose`` joins the results. Within a channel, the edits
of the stages before are pinned: a stage does not change them. Several channels are restored one after the other.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from conservator.channel_names import AUTO, CASE, HYPHENATION, MASK, MOJIBAKE, OCR, SPACES, TEXT_CHANNELS, TYPING
from conservator.channels import EditChannel, as_edit_channel, split_channels
from conservator.documents import encode_fixed
from conservator.errors import OptionError
from conservator.experts import OutOfTimeError
from conservator.options import ANY_CHARACTER, DEFAULTS, are_marks_characters
from conservator.pipelines.correction import correct
from conservator.pipelines.detection import detect_channels, has_markers
from conservator.pipelines.lost_bytes import read_damage, restore_bytes
from conservator.pipelines.lost_characters import detect_lost_characters, restore_characters
from conservator.pipelines.readings import merge_readings, select_readings
from conservator.pipelines.sequence import compose, next_task, pinned_task
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text.case import restore_case
from conservator.pipelines.visible_text.hyphenation import restore_hyphenation
from conservator.pipelines.visible_text.mojibake import restore_mojibake
from conservator.pipelines.visible_text.spaces import restore_spaces
from conservator.pipelines.visible_text.typing import restore_typing
from conservator.results import Notice, Restoration
from conservator.results.notices import detected_notice, time_limit_notice

BYTE_PIPELINE = (ANY_CHARACTER, "bytes", "invalid")  # values of the option lost for marks that ``restore_bytes`` fills
Stage = Callable[[PipelineTask], Restoration]
RESTORE_TEXT: dict[str, Stage] = {  # name of each of TEXT_CHANNELS -> its stage
    MOJIBAKE: restore_mojibake,
    HYPHENATION: restore_hyphenation,
    SPACES: restore_spaces,
    CASE: restore_case,
    TYPING: restore_typing,
}


def restore_in_stages(task: PipelineTask) -> Restoration:
    """Restore a document with the channels of its options, one after the other.

    At the time limit, the result has the edits of the stages that were reached.

    Raises:
        OutOfTimeError: the first stage has no result.
    """
    if task.readings:
        return restore_readings(task)
    result: Restoration | None = None
    notices: tuple[Notice, ...] = ()
    if task.options.channel == AUTO:
        channels = detect(task)
        task = replace(task, options=replace(task.options, channel=",".join(channels)))
        if channels != (MASK,) or has_markers(task.document.data, task.options):
            notices = (detected_notice(channels),)
    channels = ordered_channels(task)
    if any(channel in TEXT_CHANNELS for channel in channels):
        task = pin_fixed(task)
    for channel in channels:
        options = replace(task.options, channel=channel)
        current = replace(task, options=options)
        try:
            if result is None:
                result = restore_channel(current)
            else:
                result = compose(result, restore_channel(next_task(current, result)))
        except OutOfTimeError as error:
            if result is None:
                raise
            return add_time_limit(result, error.stage)
    assert result is not None  # there is at least one channel
    return replace(result, notices=(*notices, *result.notices))


def detect(task: PipelineTask) -> tuple[str, ...]:
    """Return the channels that damaged a document."""
    with task.meter.stage("detecting"):
        return detect_channels(task, {**RESTORE_TEXT, OCR: restore_channel})


def restore_readings(task: PipelineTask) -> Restoration:
    """Merge the readings of a document, and restore the text that they have in common."""
    readings, notices = select_readings(task)
    if not readings:
        result = restore_in_stages(replace(task, readings=()))
    else:
        result = merged = merge_readings(replace(task, readings=readings))
        try:
            result = compose(merged, restore_in_stages(replace(next_task(task, merged), readings=())))
        except OutOfTimeError as error:
            result = add_time_limit(merged, error.stage)
    return replace(result, notices=(*notices, *result.notices))


def ordered_channels(task: PipelineTask) -> tuple[Any, ...]:
    """Return the channels of a task in the order of their restoration.

    If all of them have errors in visible text only, marks, gaps and lost invalid bytes are restored before those
    errors, but after mojibake: a mark in mojibake is a lost byte of a character that was decoded with another encoding.
    """
    channels, options = split_channels(task.options.channel), task.options
    markers = [marker.encode() for marker in options.markers]
    are_text = all(channel in TEXT_CHANNELS for channel in channels)
    if are_text and (options.lost == "invalid" or any(marker in task.document.data for marker in markers)):
        first = int(channels[0] == MOJIBAKE)
        return (*channels[:first], DEFAULTS.channel, *channels[first:])
    return channels


def pin_fixed(task: PipelineTask) -> PipelineTask:
    """Return a task whose fixed texts may replace visible text."""
    pins = [*task.pins, *encode_fixed(task.fixed, len(task.document.data))]
    return replace(task, fixed=(), pins=sorted(pins))


def restore_channel(task: PipelineTask) -> Restoration:
    """Restore a document that one channel damaged."""
    channel = task.options.channel
    if channel in TEXT_CHANNELS:
        return RESTORE_TEXT[channel](task)
    edit_channel = as_edit_channel(channel)
    if edit_channel is None and task.document.ocr_confidence is not None:
        problem = f"needs an OCR channel, such as channel='ocr', got {channel!r}"
        raise OptionError("ocr_confidence", problem)
    if edit_channel is None:
        stages = select_stages(task)
    else:  # any text may be wrong, so fixed texts may replace visible text
        task = pin_fixed(task)
        stages = select_ocr_stages(task, edit_channel)
    first, *others = stages
    result = first(task)
    for stage in others:
        try:
            result = compose(result, stage(pinned_task(task, result)))
        except OutOfTimeError as error:
            return add_time_limit(result, error.stage)
    return result


def add_time_limit(result: Restoration, stage: str) -> Restoration:
    """Return the result of the stages before the time limit, which a stage did not reach."""
    return replace(result, out_of_time=stage, notices=(*result.notices, *time_limit_notice(stage, 0, "byte")))


def select_stages(task: PipelineTask) -> Iterator[Stage]:
    """Yield the stages for a document whose known bytes stay, or of which any byte may be wrong."""
    damage = read_damage(task)
    text = detect_lost_characters(task, damage)
    if text is not None:
        yield lambda task: restore_characters(task, text)
    elif damage.is_uncertain and task.options.lost == ANY_CHARACTER and len(damage.damaged.marks):
        yield lambda task: restore_bytes(replace(task, options=replace(task.options, channel="mask", gap=None)))
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
