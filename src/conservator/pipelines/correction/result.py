"""A correction as a restoration, in which the changed spans are the lost text and the character models the experts."""

from dataclasses import replace
from itertools import accumulate

import numpy as np

from conservator.decoders.edits import Change
from conservator.documents import DamagedDocument
from conservator.documents.damaged import LOST, MARK
from conservator.experts import Cost
from conservator.pipelines.correction.corrector import Correction
from conservator.results import Notice, Restoration
from conservator.results.notices import UNKNOWN_LANGUAGE

MIN_UNCOVERED_SHARE = 0.05  # share: a notice reports a larger uncovered part of a text [untuned]


def as_restoration(correction: Correction, cost: Cost) -> Restoration:
    """Return a correction as a restoration."""
    offsets = list(accumulate((len(character.encode()) for character in correction.observed), initial=0))
    visible = visible_changes(correction)
    texts = [change.text.encode() for change in visible]
    spans = np.array([[offsets[change.start], offsets[change.stop]] for change in visible], dtype=np.int64)
    spans = spans.reshape(-1, 2)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    longer = lengths - (spans[:, 1] - spans[:, 0])
    starts = spans[:, 0] + np.cumsum(longer) - longer
    changed = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    tokens = np.frombuffer(correction.with_changes(visible).encode(), dtype=np.uint8).astype(np.int16)
    new_tokens = tokens[changed].astype(np.int64)
    tokens[changed] = LOST
    weights = np.tile(np.array(correction.weights, dtype=np.float64), (len(changed), 1))
    return Restoration(
        damaged=DamagedDocument(tokens, starts, lengths, spans, np.ones(len(visible), dtype=bool), MARK, None),
        experts=correction.names,
        positions=changed,
        read_tokens=new_tokens,
        read_confidence=np.repeat([change.probability for change in visible], lengths).astype(np.float64),
        read_field=weights.reshape(len(changed), len(correction.names)),
        read_regions=np.full(len(changed), int(np.argmax(correction.weights)) if correction.names else -1),
        unfilled_positions=np.empty(0, dtype=np.int64),
        alternatives=(),
        changes=correction.changes,
        rate=correction.rate,
        out_of_time=correction.out_of_time,
        reported=coverage_notices(correction.uncovered),
        cost=cost,
    )


def coverage_notices(uncovered: float) -> tuple[Notice, ...]:
    """Return the notice that a share of a text is unchanged because no model covers it; none if the share is small."""
    if uncovered < MIN_UNCOVERED_SHARE:
        return ()
    part = "this text" if uncovered == 1 else f"{100 * uncovered:.0f} % of this text"
    left = "it was" if uncovered == 1 else "that part was"
    message = (
        f"the models do not cover the language or kind of {part}, so {left} left unchanged; reference texts of the "
        "same language and kind make corrections possible"
    )
    return (Notice(UNKNOWN_LANGUAGE, message),)


def visible_changes(correction: Correction) -> list[Change]:
    """Return the changes, each with text to display: a deletion is extended by the character before or after it."""
    visible: list[Change] = []
    for change in correction.changes:
        extended = change
        if not change.text:
            start = change.start - 1 if change.start > (visible[-1].stop if visible else 0) else change.start
            stop = change.stop if start < change.start else min(len(correction.observed), change.stop + 1)
            before, after = correction.observed[start : change.start], correction.observed[change.stop : stop]
            extended = replace(change, start=start, stop=stop, seen=before + change.seen + after, text=before + after)
        if visible and extended.start < visible[-1].stop:
            overlap = visible[-1].stop - extended.start
            extended = replace(
                extended, start=visible[-1].stop, seen=extended.seen[overlap:], text=extended.text[overlap:]
            )
        if extended.text:
            visible.append(extended)
        elif visible and visible[-1].stop == extended.start:
            last = visible[-1]
            visible[-1] = replace(last, stop=extended.stop, seen=last.seen + extended.seen)
    return visible
