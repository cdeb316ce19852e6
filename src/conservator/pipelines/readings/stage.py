"""Stage that merges several readings of a document: what they differ in is decided by their errors and by a prior."""

import re
from collections.abc import Iterator
from math import exp, inf, log

from conservator.channel_names import READINGS
from conservator.document import Document
from conservator.documents import LOST_SYMBOLS, SymbolText
from conservator.experts.char_ngram import REFERENCES, CharNgramModel, load_char_ngram_models
from conservator.pipelines.readings.inference import CONFIG, MergedText
from conservator.pipelines.readings.similarity import is_same_text
from conservator.pipelines.task import PipelineTask
from conservator.pipelines.visible_text import Proposal, TextChannel, correct_visible_text
from conservator.results import Restoration
from conservator.results.notices import Notices, unrelated_reading_notice

# log-odds and ratio: calibration of corrections, fitted to benchmarks/readings.py --half tune [LOG: several-readings]
OFFSET, SLOPE = 0.05, 0.13
PUNCTUATION_MODEL = "prose"  # word lists have no punctuation, so its English text is used in all languages
MIN_PROB = 1e-12  # probability: lower bound before a logarithm [numerical]


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
    models = [model for model in load_char_ngram_models() if model.name == PUNCTUATION_MODEL]
    models += [CharNgramModel.of(REFERENCES, texts)] if texts else []

    def propose(_: str) -> Iterator[Proposal]:
        for item in MergedText(base, readings, models).infer(task.meter):
            start, stop = (int(base.edges[edge]) for edge in (item.slot.start, item.slot.stop))
            scores = dict.fromkeys([item.slot.data], -inf)
            for candidate in item.candidates:
                score = CONFIG.inverse_temperature * candidate.score
                scores[candidate.data] = max(score, scores.get(candidate.data, -inf))
            yield Proposal(start, stop, scores, fills_marker=bool(LOST_SYMBOLS.search(item.slot.observed)))

    channel = TextChannel(
        READINGS,
        propose,
        (READINGS,),
        calibrate=calibrate,
        errors="surrogateescape",
        changes_marks=True,
        changes_gaps=True,
    )
    return correct_visible_text(task, channel)


def calibrate(probability: float) -> float:
    """Return the probability that a correction with a posterior probability is correct."""
    odds = max(probability, MIN_PROB) / max(1 - probability, MIN_PROB)
    return 1 / (1 + exp(-OFFSET - SLOPE * log(odds)))
