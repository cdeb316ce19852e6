"""A correction as a restoration: the changed stretches are what was lost, and the models of characters its experts."""

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

NOTICED = 0.05  # the share of a text from which a notice says that it was left unchanged


def as_restoration(correction: Correction, cost: Cost) -> Restoration:
    """The restoration that a correction is."""
    places = list(accumulate((len(character.encode()) for character in correction.seen), initial=0))
    shown = visible(correction)
    texts = [change.text.encode() for change in shown]
    spans = np.array([[places[one.start], places[one.stop]] for one in shown], dtype=np.int64).reshape(-1, 2)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    longer = lengths - (spans[:, 1] - spans[:, 0])
    begins = spans[:, 0] + np.cumsum(longer) - longer
    changed = np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    tokens = np.frombuffer(correction.rewritten(shown).encode(), dtype=np.uint8).astype(np.int16)
    written = tokens[changed].astype(np.int64)
    tokens[changed] = LOST
    weights = np.tile(np.array(correction.weights, dtype=np.float64), (len(changed), 1))
    return Restoration(
        damaged=DamagedDocument(tokens, begins, lengths, spans, np.ones(len(shown), dtype=bool), MARK, None),
        experts=correction.names,
        positions=changed,
        read_tokens=written,
        read_confidence=np.repeat([one.probability for one in shown], lengths).astype(np.float64),
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
    """The notice that a share of a text was left unchanged because no model covers it; none if the share is small."""
    if uncovered < NOTICED:
        return ()
    part = "this text" if uncovered == 1 else f"{100 * uncovered:.0f} % of this text"
    left = "it was" if uncovered == 1 else "that part was"
    message = (
        f"the models do not cover the language or kind of {part}, so {left} left unchanged; reference texts of the "
        "same language and kind (the option like) make corrections possible"
    )
    return (Notice(UNKNOWN_LANGUAGE, message),)


def visible(correction: Correction) -> list[Change]:
    """The changes, each with text to be seen: one that leaves nothing takes the character before it, or after it."""
    found: list[Change] = []
    for change in correction.changes:
        wider = change
        if not change.text:
            start = change.start - 1 if change.start > (found[-1].stop if found else 0) else change.start
            stop = change.stop if start < change.start else min(len(correction.seen), change.stop + 1)
            before, after = correction.seen[start : change.start], correction.seen[change.stop : stop]
            wider = replace(change, start=start, stop=stop, seen=before + change.seen + after, text=before + after)
        if found and wider.start < found[-1].stop:
            overlap = found[-1].stop - wider.start
            wider = replace(wider, start=found[-1].stop, seen=wider.seen[overlap:], text=wider.text[overlap:])
        if wider.text:
            found.append(wider)
        elif found and found[-1].stop == wider.start:
            last = found[-1]
            found[-1] = replace(last, stop=wider.stop, seen=last.seen + wider.seen)
    return found
