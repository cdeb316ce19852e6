"""Stage that merges several readings of a document: what they differ in is decided by their errors and by a prior."""

import re
from collections.abc import Iterable

from conservator.channel_names import READINGS
from conservator.document import Document
from conservator.documents import SymbolText
from conservator.experts.char_ngram import REFERENCES, CharNgramModel
from conservator.pipelines.readings.inference import MergedText
from conservator.pipelines.readings.similarity import is_same_text
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text import Proposal, TextChannel, correct_visible_text
from conservator.results import Restoration
from conservator.results.notices import Notices, unrelated_reading_notice


def select_readings(task: PipelineTask) -> tuple[list[Document], Notices]:
    """Return the readings of the text of the document, and notices about those of other texts."""
    options = task.options
    base = SymbolText.of(task.document.data, options.mark, options.gap_markers).symbols
    selected: list[Document] = []
    notices: Notices = ()
    for reading in task.readings:
        if is_same_text(base, SymbolText.of(reading.data, options.mark, options.gap_markers).symbols):
            selected.append(reading)
        else:
            notices += unrelated_reading_notice(reading.name)
    return selected, notices


def merge_readings(task: PipelineTask) -> Restoration:
    """Merge the additional readings of a document into it, the base, which determines the format."""
    options = task.options
    base, *others = (
        SymbolText.of(document.data, options.mark, options.gap_markers) for document in (task.document, *task.readings)
    )
    readings = sorted(other.symbols for other in others)  # their order has no effect
    texts = [re.sub(r"\s+", " ", text) for _, text in task.references.texts]
    models = [CharNgramModel.of(REFERENCES, texts)] if texts else []

    def propose(_: str) -> Iterable[Proposal]:
        merged = MergedText(base, readings, models)
        for item in merged.infer(task.meter):
            start, stop = (int(base.edges[edge]) for edge in (item.slot.start, item.slot.stop))
            scores = {item.slot.data: -float("inf")}
            for candidate in item.candidates:
                scores[candidate.data] = max(candidate.score, scores.get(candidate.data, -float("inf")))
            yield Proposal(start, stop, scores)

    channel = TextChannel(
        READINGS, propose, (READINGS,), errors="surrogateescape", changes_marks=True, changes_gaps=True
    )
    return correct_visible_text(task, channel)
