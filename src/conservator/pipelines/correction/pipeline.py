"""Pipeline for OCR errors: correct the text, and return the corrections as edits."""

from itertools import accumulate

import numpy as np

from conservator.channels.edits import EditChannel
from conservator.document import Document
from conservator.errors import ConservatorError, OptionError
from conservator.experts import Cost
from conservator.options import DEFAULTS
from conservator.pipelines.correction.corrector import Correction, Corrector
from conservator.pipelines.rescoring import precision_by_name
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Restoration
from conservator.results.notices import coverage_notice, time_limit_notice


def correct(task: PipelineTask, channel: EditChannel) -> Restoration:
    """Correct a document with OCR errors; its experts are character models."""
    options, document = task.options, task.document
    try:
        text = document.data.decode()
    except UnicodeDecodeError as error:
        problem = f"OCR correction needs valid UTF-8, but byte {error.start} of the document is invalid"
        raise ConservatorError(problem) from error
    if task.fixed:
        raise OptionError("fixed", "fixed text needs marked gaps; with an OCR channel any character may change")
    if not task.models.select:
        problem = f"OCR correction uses its own character models, remove the experts {task.models.names}"
        raise OptionError("experts", problem)
    confidence = document.ocr_confidence
    if confidence is not None and len(confidence) != len(text):
        problem = f"must have one entry per character: the document has {len(text)}, got {len(confidence)}"
        raise OptionError("ocr_confidence", problem)
    for name in ("gap", "lost", "alternatives"):
        if getattr(options, name) != getattr(DEFAULTS, name):
            raise OptionError(name, "not supported with an OCR channel, which corrects text without lost spans")
    with task.meter.measure() as spent:
        prior = task.references.char_ngram_prior
        with task.meter.stage("correcting"):
            rescorer = task.models.rescorer(options)
            corrector = Corrector(
                channel,
                prior,
                min_log_odds=options.min_log_odds,
                min_confidence=options.min_confidence,
                mark=options.mark,
                rescorer=rescorer,
                reference_tokens=task.references.tokens,
            )
            correction = corrector.correct(text, task.meter, confidence)
    return as_restoration(correction, document, spent.cost, precision_by_name(rescorer.experts if rescorer else ()))


def as_restoration(
    correction: Correction, document: Document, cost: Cost, precision: dict[str, str] | None = None
) -> Restoration:
    """Return the result of a correction.

    Args:
        correction: The corrections of the text of ``document``.
        document: The document.
        cost: Cost of the correction.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
    """
    offsets = list(accumulate((len(character.encode()) for character in correction.observed), initial=0))
    edits = tuple(
        Edit(
            (offsets[change.start], offsets[change.stop]),
            change.text.encode(),
            change.probability,
            change.log_odds if np.isfinite(change.log_odds) else None,
        )
        for change in correction.changes
    )
    length = len(document.data) + sum(len(edit.data) - edit.span[1] + edit.span[0] for edit in edits)
    confidence, regions = np.ones(length), np.full(length, -1)
    shift = 0
    for edit in edits:
        start = edit.span[0] + shift
        stop = start + len(edit.data)
        confidence[start:stop], regions[start:stop] = edit.probability, int(np.argmax(correction.weights))
        shift += len(edit.data) - edit.span[1] + edit.span[0]
    return Restoration(
        observed=document.data,
        edits=edits,
        experts=correction.names,
        positions=np.arange(length),
        read_confidence=confidence,
        read_field=np.broadcast_to(np.array(correction.weights, dtype=np.float64), (length, len(correction.names))),
        read_regions=regions,
        rate=correction.rate,
        out_of_time=correction.out_of_time,
        notices=(*coverage_notice(correction.uncovered), *time_limit_notice(correction.out_of_time, 0, "correction")),
        cost=cost,
        precision=precision or {},
        encoding=document.encoding,
    )
