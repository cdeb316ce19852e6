"""Pipeline for OCR errors: correct the text, and return the corrections as edits."""

import re
from collections.abc import Sequence

import numpy as np

from conservator.channel_names import OCR
from conservator.channels.edits import EditChannel
from conservator.decoders import Candidate
from conservator.document import Document
from conservator.documents import MARK, Pin
from conservator.errors import Advice, ConservatorError, OptionError
from conservator.experts import Cost
from conservator.options import RestoreOptions
from conservator.pipelines.candidate_scores import candidate_rescorer
from conservator.pipelines.corrected_text import build_correction, byte_offsets
from conservator.pipelines.correction.corrector import Correction, Corrector
from conservator.pipelines.rescoring import precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Restoration
from conservator.results.notices import coverage_notice, time_limit_notice

INVALID_BYTES = "surrogateescape"  # name of the error handler that reads an invalid byte as a surrogate [definition]
INVALID = "\udc80-\udcff"  # range of these surrogates [definition]


def correct(task: PipelineTask, channel: EditChannel) -> Restoration:
    """Correct the OCR errors of a document, except gap markers, pinned texts, and lost bytes."""
    options, document = task.options, task.document
    has_byte_marks = options.lost in ("bytes", "invalid")
    try:
        text = document.data.decode(errors=INVALID_BYTES if has_byte_marks else "strict")
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"OCR correction needs valid UTF-8, but byte {error.start} of the document is invalid",
            Advice("lost", "invalid", "counts the invalid bytes as lost"),
        ) from error
    confidence = document.ocr_confidence
    if confidence is not None and len(confidence) != len(text):
        problem = f"must have one entry per character: the document has {len(text)}, got {len(confidence)}"
        raise OptionError("ocr_confidence", problem)
    protected, text = protect(text, task.pins, options, has_byte_marks=has_byte_marks)
    with task.meter.measure() as spent:
        prior = task.references.char_ngram_prior
        with task.meter.stage("correcting"):
            rescorer = candidate_rescorer(task)
            corrector = Corrector(
                channel,
                prior,
                min_log_odds=options.min_log_odds,
                min_confidence=options.min_confidence,
                mark=None if has_byte_marks else options.mark,
                rescorer=rescorer,
                reference_tokens=task.references.tokens,
                alternatives=options.alternatives,
            )
            correction = corrector.correct(text, task.meter, confidence, protected)
    precision = precision_by_name(rescorer.experts if rescorer else ())
    return as_restoration(correction, document, spent.cost, precision, task.pins)


def protect(
    text: str, pins: Sequence[Pin], options: RestoreOptions, *, has_byte_marks: bool
) -> tuple[list[tuple[int, int]], str]:
    """Find the ranges of characters that a correction leaves unchanged.

    Args:
        text: The document, with surrogates for invalid bytes.
        pins: Pinned texts.
        options: Markers of gaps and lost bytes.
        has_byte_marks: Whether marks stand for bytes.

    Returns:
        The ranges, in order, and the text with the pinned texts of the same length inserted, and U+FFFD for invalid
        bytes.
    """
    starts = np.array(byte_offsets(text, INVALID_BYTES))
    markers = [re.escape(marker) for marker in sorted(options.gap_markers, key=len, reverse=True)]
    markers += [re.escape(options.mark), f"[{INVALID}]"] if has_byte_marks else []
    ranges = [match.span() for match in re.finditer("|".join(markers), text)] if markers else []
    for start, stop, data in sorted(pins):
        first, last = np.searchsorted(starts, [start, stop]).tolist()
        if starts[first] != start or starts[last] != stop:
            raise OptionError("fixed", f"the bytes {start} to {stop} split a character")
        ranges = [(begin, end) for begin, end in ranges if end <= first or begin >= last]
        ranges.append((first, last))
        new_text = data.decode(errors="replace")
        if len(new_text) == last - first:
            text = text[:first] + new_text + text[last:]
    return sorted(ranges), re.sub(f"[{INVALID}]", MARK, text)


def as_restoration(
    correction: Correction,
    document: Document,
    cost: Cost,
    precision: dict[str, str] | None = None,
    pins: Sequence[Pin] = (),
) -> Restoration:
    """Return the result of a correction.

    Args:
        correction: The corrections of the text of ``document``.
        document: The document.
        cost: Cost of the correction.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
        pins: Pinned texts.
    """
    offsets = byte_offsets(document.data.decode(errors=INVALID_BYTES), INVALID_BYTES)
    edits = [Edit((start, stop), data, 1.0, is_fixed=True) for start, stop, data in pins]
    edits += [
        Edit(
            (offsets[change.start], offsets[change.stop]),
            change.text.encode(),
            change.probability,
            change.log_odds if np.isfinite(change.log_odds) else None,
            alternatives=tuple(Candidate(text.encode(), probability) for text, probability in change.alternatives),
        )
        for change in correction.changes
    ]
    return build_correction(
        document,
        edits,
        OCR,
        correction.names,
        np.array(correction.weights),
        cost=cost,
        rate=correction.rate,
        notices=(*coverage_notice(correction.uncovered), *time_limit_notice(correction.out_of_time, 0, "correction")),
        out_of_time=correction.out_of_time,
        precision=precision,
    )
