"""What models of characters leave in doubt, judged by language models."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.edits import Change
from conservator.decoders.edits.arcs import LineArcs
from conservator.decoders.edits.scoring import CandidateSpan, rescore_spans
from conservator.decoders.edits.spans import SpanText, UncertainSpan
from conservator.experts import Meter
from conservator.pipelines.rescoring import Rescorer

WEIGHT = 0.4  # of the log-probabilities of language models, beside those of the channel and the models of characters
SURE = 0.95  # the probability of a text from which it is not judged
ROUNDS = 2
NEAR = 64  # bytes: what is so near to something that changes is judged again

Floats = NDArray[np.float64]


class Doubt(NamedTuple):
    """A stretch in doubt, of the piece of a text that begins at ``start``, and the steps of that piece."""

    start: int
    stretch: UncertainSpan
    steps: LineArcs


def correct_again(rewriter: Rescorer, text: str, doubts: Sequence[Doubt], meter: Meter) -> list[Change]:
    """The changes of the likeliest text of each stretch in doubt, by all models together.

        score(t) = log-probability by the channel and the models of characters + WEIGHT log q(t | the text around it)

    Args:
        rewriter: the language models, and their weights.
        text: as it was seen.
        doubts: in order.
        meter: counts the tokens that are read.
    """
    choices = [0] * len(doubts)
    posteriors = [posterior(np.array([one.score for one in doubt.stretch.alternatives])) for doubt in doubts]
    asked = [number for number, one in enumerate(posteriors) if one.max() < SURE]
    for _ in meter.steps(range(ROUNDS)):
        data, spans = write(text, doubts, choices)
        texts = [tuple(one.text.encode() for one in doubts[number].stretch.alternatives) for number in asked]
        spots = [CandidateSpan(*spans[number], some) for number, some in zip(asked, texts, strict=True)]
        weights = rewriter.weights(data, np.ones(len(data), dtype=bool), meter) if spots else np.empty((0, 0))
        changed = []
        for number, said in zip(asked, rescore_spans(rewriter.experts, weights, data, spots, meter), strict=True):
            own = np.array([one.score for one in doubts[number].stretch.alternatives])
            posteriors[number] = posterior(own + WEIGHT * said)
            best = int(np.argmax(posteriors[number]))
            if best != choices[number]:
                changed.append(spans[number])
                choices[number] = best
        asked = [number for number in asked if any(is_near(spans[number], one) for one in changed)]
    return [
        change
        for doubt, probabilities, choice in zip(doubts, posteriors, choices, strict=True)
        for change in find_changes(text, doubt, probabilities, choice)
    ]


def posterior(scores: Floats) -> Floats:
    """Probabilities from scores."""
    found: Floats = np.exp(scores - np.logaddexp.reduce(scores))
    return found


def is_near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two different spans are near each other."""
    return one != other and one[0] - other[1] < NEAR and other[0] - one[1] < NEAR


def write(text: str, doubts: Sequence[Doubt], choices: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
    """The text with what is chosen for each stretch, and where in its bytes the stretches are."""
    parts, spans, done, size = [], [], 0, 0
    for doubt, choice in zip(doubts, choices, strict=True):
        before = text[done : doubt.start + doubt.stretch.start].encode()
        chosen = doubt.stretch.alternatives[choice].text.encode()
        start = size + len(before)
        size = start + len(chosen)
        spans.append((start, size))
        parts += [before, chosen]
        done = doubt.start + doubt.stretch.stop
    return b"".join([*parts, text[done:].encode()]), spans


def find_changes(text: str, doubt: Doubt, probabilities: Floats, choice: int) -> list[Change]:
    """The changes that a text of a stretch makes, with their probabilities: of all texts that make them, too."""
    chosen = doubt.stretch.alternatives[choice]
    changes = []
    runs = [find_runs(one, doubt.steps) for one in doubt.stretch.alternatives]
    first = doubt.start + doubt.stretch.start
    for start, stop, written in find_runs(chosen, doubt.steps):
        made = sum(share for share, found in zip(probabilities, runs, strict=True) if (start, stop, written) in found)
        kept = sum(share for share, found in zip(probabilities, runs, strict=True) if leaves(found, start, stop))
        log_odds = float(np.log(made) - np.log(kept)) if kept else float("inf")
        seen = text[first + start : first + stop]
        changes.append(Change(first + start, first + stop, seen, written, min(1.0, float(made)), log_odds))
    return changes


def find_runs(one: SpanText, steps: LineArcs) -> list[tuple[int, int, str]]:
    """The runs of edits in a text: where each starts and stops in what was seen, and what it writes.

    What fills a mark is a run of its own.
    """
    places = list(accumulate((int(steps.widths[step]) for step in one.arcs), initial=0))
    found: list[tuple[int, int, str]] = []
    edited = False
    for step, place in zip(one.arcs, places, strict=False):
        if not steps.keep[step]:
            joins = edited and not steps.fills_mark[step]
            start, before = (found[-1][0], found.pop()[2]) if joins else (place, "")
            written = "".join(map(chr, steps.texts[step, : steps.lengths[step]].tolist()))
            found.append((start, place + int(steps.widths[step]), before + written))
        edited = not (steps.keep[step] or steps.fills_mark[step])
    return found


def leaves(runs: Sequence[tuple[int, int, str]], start: int, stop: int) -> bool:
    """Whether runs of edits leave a stretch as it is; nothing is missing in an empty one."""
    if start == stop:
        return all(not begin <= start <= end for begin, end, _ in runs)
    return all(end <= start or begin >= stop for begin, end, _ in runs)
