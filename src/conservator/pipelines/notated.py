"""Documents in editorial notation: their lacunae are restored in the text without markup, then all other damage.

    document -> reading text -> lacunae -> other stages -> result for the reading text -> result for the document

The brackets of a lacuna, and all other markup, stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conservator.arrays import Ints
from conservator.documents import encode_fixed, read_damaged
from conservator.errors import OptionError
from conservator.experts import OutOfTimeError
from conservator.notation import Part, ReadingText, is_epidoc, read_epidoc, read_leiden
from conservator.options import ANY_CHARACTER, DEFAULTS
from conservator.pipelines.lacunae import restore_lacunae
from conservator.pipelines.sequence import compose, pinned_task
from conservator.pipelines.stages import add_time_limit, restore_in_stages
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Restoration

READERS = {"leiden": read_leiden, "epidoc": read_epidoc}


def restore_document(task: PipelineTask) -> Restoration:
    """Restore a document; if it is in editorial notation, its lacunae first."""
    notation = find_notation(task)
    if notation == "plain":
        return restore_in_stages(task)
    options = task.options
    if options.lost not in (DEFAULTS.lost, ANY_CHARACTER):
        raise OptionError("lost", f"marks stand for characters in editorial notation, got {options.lost!r}")
    if task.document.ocr_confidence is not None:
        raise OptionError("notation", f"a document with OCR confidences has no editorial notation, got {notation!r}")
    if task.readings:
        raise OptionError("readings", "a document in editorial notation cannot be merged with other readings")
    reading = READERS[notation](task.document.data)
    if not options.mark.isascii():  # an ASCII mark may be undamaged text
        reading = reading.with_marks(options.mark, (b"", b"") if notation == "epidoc" else None)
    task = replace(
        task,
        document=replace(task.document, data=reading.data),
        options=replace(options, lost=ANY_CHARACTER),
        fixed=fixed_in_reading(task, reading),
    )
    result = restore_lacunae(task)
    if has_other_damage(task):
        try:
            result = compose(result, restore_in_stages(pinned_task(task, result)))
        except OutOfTimeError as error:
            result = add_time_limit(result, error.stage)
    return replace(in_notation(result, reading), notation=notation)


def find_notation(task: PipelineTask) -> str:
    """Return the notation of a document: ``plain``, ``leiden`` or ``epidoc``."""
    options = task.options
    if task.document.transcript is not None:
        return "plain"
    if options.notation != "auto":
        return options.notation
    is_detected = options.lost in (DEFAULTS.lost, ANY_CHARACTER) and is_epidoc(task.document.data)
    return "epidoc" if is_detected else "plain"


def has_other_damage(task: PipelineTask) -> bool:
    """Return whether a reading text has damage other than lacunae: ASCII marks, gap markers, or another channel's."""
    markers = (marker.encode() for marker in task.options.markers)
    return task.options.channel != DEFAULTS.channel or any(marker in task.document.data for marker in markers)


def fixed_in_reading(task: PipelineTask, reading: ReadingText) -> list[tuple[int, int, str]]:
    """Return the fixed texts of the document with their ranges in the reading text."""
    fixed = []
    for start, stop, data in encode_fixed(task.fixed, len(reading.source)):
        span = reading.reading_range(start, stop)
        if span is None:
            raise OptionError("fixed", f"the bytes {start} to {stop} are not a lacuna or text without markup")
        fixed.append((*span, data.decode()))
    options, lacunae = task.options, dict(reading.lacunae)
    if options.channel == DEFAULTS.channel:  # other fixed text is for marks only, because visible text stays
        marked = [text for text in fixed if text[:2] not in lacunae]
        read_damaged(reading.data, mark=options.mark, gap=options.gap_markers, fixed=marked)
    return fixed


def in_notation(result: Restoration, reading: ReadingText) -> Restoration:
    """Return the result for a document, given that for its reading text; edits across markup are left out."""
    lacunae = dict(reading.lacunae)
    moved = [
        (move(edit, reading, lacunae), edit.span, at) for edit, at in zip(result.edits, result.ranges, strict=True)
    ]
    remaining = [(edit, span, at) for edit, span, at in moved if edit is not None]
    notated = replace(result, observed=reading.source, edits=tuple(edit for edit, _, _ in remaining), gaps=())
    spans = {span: (edit.span, at) for (edit, span, _), at in zip(remaining, notated.ranges, strict=True)}
    gaps = [(gap, *spans[gap.span]) for gap in result.gaps if gap.span in spans]
    selected = join_ranges([at for _, _, at in remaining])
    return replace(
        notated,
        gaps=tuple(replace(gap, span=span, at=at) for gap, span, at in gaps),
        positions=join_ranges(notated.ranges),
        read_confidence=result.confidence[selected],
        read_field=result.field[selected],
        read_regions=result.regions[selected],
    )


def join_ranges(ranges: Sequence[tuple[int, int]]) -> Ints:
    """Return the numbers (n,) in half-open ranges."""
    return np.concatenate([np.arange(*bounds) for bounds in ranges] or [np.empty(0, dtype=np.int64)])


def move(edit: Edit, reading: ReadingText, lacunae: dict[tuple[int, int], Part]) -> Edit | None:
    """Return an edit of the reading text as an edit of the document; None if markup is within it."""
    part = lacunae.get(edit.span)
    if part is not None:
        marker = reading.source[part.start : part.stop]
        return replace(
            edit,
            span=(part.start, part.stop),
            placeholders={index: marker if data else b"" for index, data in edit.placeholders.items()},
            markup=part.markup,
        )
    span = reading.source_range(*edit.span)
    if span is None:
        return None
    byte_spans = (reading.source_range(*byte_span) for byte_span in edit.byte_spans)
    sources = {index: source for index, source in edit.sources.items() if source.name is not None}
    return replace(edit, span=span, byte_spans=tuple(moved or span for moved in byte_spans), sources=sources)
