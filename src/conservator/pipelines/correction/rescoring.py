"""Rescoring of uncertain spans of a text with OCR errors, with language models."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from conservator.arrays import Floats
from conservator.decoders.edits import Change
from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.spans import SpanText, UncertainSpan
from conservator.decoders.rescoring import Draft, Slot
from conservator.documents import splice
from conservator.experts import Meter
from conservator.pipelines.candidate_scores import CandidateRescorer


@dataclass(frozen=True)
class CorrectionRescoringConfig:
    """Constants of the rescoring."""

    # weight: log-probabilities of language models, where the channel and the character models have 1
    # [LOG: ocr-correction]
    language_model_weight: float = 0.4
    confidence_threshold: float = 0.95  # probability: spans with a better candidate are kept [LOG: ocr-correction]


CORRECTION_RESCORING = CorrectionRescoringConfig()


class LineSpan(NamedTuple):
    """An uncertain span of a line, with its position in the text.

    Attributes:
        line_start: Start of the line in the text.
        span: The span in the line, and its candidates.
        arcs: The arcs of the line.
    """

    line_start: int
    span: UncertainSpan
    arcs: LineArcs

    @property
    def start(self) -> int:
        """Start of the span in the text."""
        return self.line_start + self.span.start

    @property
    def stop(self) -> int:
        """End of the span in the text."""
        return self.line_start + self.span.stop

    @property
    def scores(self) -> Floats:
        """(k,) log-probability of each candidate, by the channel and the character models."""
        return np.array([candidate.score for candidate in self.span.alternatives])


def rescore_corrections(
    rescorer: CandidateRescorer, text: str, uncertain: Sequence[LineSpan], meter: Meter
) -> list[Floats]:
    """Return the probabilities (k,) of the candidates of each uncertain span, by all models together.

        score(t) = log p(t) of the channel and the character models + language_model_weight log q(t | context)

    Args:
        rescorer: Language models or experts.
        text: The observed text.
        uncertain: Uncertain spans, in order.
        meter: Counts the tokens that are read.
    """
    posteriors = [posterior(span.scores) for span in uncertain]
    threshold = CORRECTION_RESCORING.confidence_threshold
    pending = [index for index, probabilities in enumerate(posteriors) if probabilities.max() < threshold]
    draft = Draft.of(text.encode(), as_slots(text, uncertain)).replace(
        {index: span.span.alternatives[0].text.encode() for index, span in enumerate(uncertain)}
    )
    slots = [Slot(int(draft.starts[index]), int(draft.stops[index]), draft.slots[index].scores) for index in pending]
    rescored = rescorer.choose(draft.text, slots, meter, CORRECTION_RESCORING.language_model_weight)
    for number, result in rescored.posteriors.items():
        texts = [candidate.text.encode() for candidate in uncertain[pending[number]].span.alternatives]
        posteriors[pending[number]] = np.array([result.candidates[candidate] for candidate in texts])
    return posteriors


def as_slots(text: str, uncertain: Sequence[LineSpan]) -> list[Slot]:
    """Return the uncertain spans as slots of the observed text, in bytes."""
    slots, done, size = [], 0, 0
    for span in uncertain:
        start = size + len(text[done : span.start].encode())
        size = start + len(text[span.start : span.stop].encode())
        done = span.stop
        slots.append(Slot(start, size, {option.text.encode(): option.score for option in span.span.alternatives}))
    return slots


def posterior(scores: Floats) -> Floats:
    """Return probabilities (k,), given log-probabilities (k,) up to a constant."""
    probabilities: Floats = np.exp(scores - np.logaddexp.reduce(scores))
    return probabilities


def find_changes(text: str, uncertain: LineSpan, probabilities: Floats) -> list[Change]:
    """Return the changes of the most probable candidate; their probabilities sum over all candidates that make them.

    Args:
        text: The observed text.
        uncertain: The span.
        probabilities: (k,) of its candidates.
    """
    changes, choice = [], int(np.argmax(probabilities))
    edits = [find_edits(candidate, uncertain.arcs) for candidate in uncertain.span.alternatives]
    first = uncertain.start
    for start, stop, new_text in edits[choice]:
        made = sum(
            probability
            for probability, others in zip(probabilities, edits, strict=True)
            if (start, stop, new_text) in others
        )
        unchanged = sum(
            probability for probability, others in zip(probabilities, edits, strict=True) if leaves(others, start, stop)
        )
        log_odds = float(np.log(made) - np.log(unchanged)) if unchanged else float("inf")
        observed = text[first + start : first + stop]
        changes.append(Change(first + start, first + stop, observed, new_text, min(1.0, float(made)), log_odds))
    return changes


def find_edits(candidate: SpanText, arcs: LineArcs) -> list[tuple[int, int, str]]:
    """Return (start, stop, new text) of each run of edits in a candidate, in positions of its span.

    The filling of a mark is a separate run.
    """
    positions = list(accumulate((int(arcs.widths[arc]) for arc in candidate.arcs), initial=0))
    edits: list[tuple[int, int, str]] = []
    is_open = False  # whether the last run can be extended
    for arc, position in zip(candidate.arcs, positions, strict=False):
        if not arcs.keep[arc]:
            joins = is_open and not arcs.fills_mark[arc]
            start, before = (edits[-1][0], edits.pop()[2]) if joins else (position, "")
            new_text = "".join(map(chr, arcs.texts[arc, : arcs.lengths[arc]].tolist()))
            edits.append((start, position + int(arcs.widths[arc]), before + new_text))
        is_open = not (arcs.keep[arc] or arcs.fills_mark[arc])
    return edits


def leaves(edits: Sequence[tuple[int, int, str]], start: int, stop: int) -> bool:
    """Return whether edits leave a range unchanged; an empty range is changed by an insertion."""
    if start == stop:
        return all(not first <= start <= last for first, last, _ in edits)
    return all(last <= start or first >= stop for first, last, _ in edits)


def list_alternatives(
    change: Change, spans: Sequence[LineSpan], posteriors: Sequence[Floats], count: int
) -> tuple[tuple[str, float], ...]:
    """Return the ``count`` most probable texts of the span of a change, with their probabilities.

    The change comes first. The probabilities of the others share the probability that it is wrong.

    Args:
        change: The change, with its calibrated probability.
        spans: Uncertain spans of the text.
        posteriors: Probabilities (k,) of the candidates of each span.
        count: Number of texts, with that of the change.
    """
    totals: dict[str, float] = {}
    for span, probabilities in zip(spans, posteriors, strict=True):
        if not span.start <= change.start <= change.stop <= span.stop:
            continue
        start, stop = change.start - span.start, change.stop - span.start
        for candidate, probability in zip(span.span.alternatives, probabilities.tolist(), strict=True):
            edits = find_edits(candidate, span.arcs)
            inside = [edit for edit in edits if start <= edit[0] and edit[1] <= stop]
            if leaves([edit for edit in edits if edit not in inside], start, stop):
                text = splice(change.seen, ((first - start, last - start, new) for first, last, new in inside))
                totals[text] = totals.get(text, 0.0) + probability
    others = sorted(((text, total) for text, total in totals.items() if text != change.text), key=lambda item: -item[1])
    mass = sum(total for _, total in others) or 1.0
    wrong = 1 - change.probability
    return ((change.text, change.probability), *((text, wrong * total / mass) for text, total in others[: count - 1]))
