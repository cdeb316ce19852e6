"""A restoration as a record of plain values: what JSON, the report and the page show."""

import json
from itertools import pairwise
from typing import Any

import numpy as np

from conservator.decoders import Fill
from conservator.numerics import runs
from conservator.restoration.restoration import Restoration, Span

FORMAT = "conservator restoration 1"
BINS = 480  # of the field's curves

Record = dict[str, Any]


def as_json(restoration: Restoration) -> str:
    """The record and the text as JSON."""
    return json.dumps({**as_record(restoration), "text": restoration.text}, ensure_ascii=False, allow_nan=False) + "\n"


def as_record(restoration: Restoration) -> Record:
    """The document in pieces, with what is known of each.

    ``pieces`` in order, whose ``text`` together is the document. All have ``at``, the byte positions from and up to
    which they stand, and ``expert``, whose text they are (None where nothing was read). Restored ones have besides:
    ``origin`` (where they stand in the damaged document, from and up to a byte), ``sure`` (a probability for each
    character of ``guess``), ``guess`` (what was restored, or would be where ``open`` says that it was left as it was),
    ``weights`` of the experts, and ``fills``: the best joint fills with their probabilities. A gap within a character
    is shown with the rest of it.
    """
    summary = restoration.summary
    return {
        "format": FORMAT,
        "experts": list(restoration.experts),
        "summary": {
            "bytes": summary.bytes,
            "lost": summary.lost,
            "places": summary.places,
            "restored": summary.restored,
            "left_open": summary.left_open,
            "expected_accuracy": _round(summary.expected_accuracy),
            "sure": summary.sure,
        },
        "cost": {
            "evaluations": restoration.cost.evaluations,
            "seconds": _round(restoration.cost.seconds),
            "expert_seconds": _round(restoration.cost.expert_seconds),
        },
        "field": _curves(restoration),
        "pieces": _pieces(restoration),
    }


def _pieces(restoration: Restoration) -> list[Record]:
    """The document from its first byte to its last."""
    length = len(restoration.tokens)
    starts = (restoration.tokens & 0xC0) != 0x80
    # A boundary within a character moves to the end of it, or the piece could not be written.
    following = np.append(np.where(starts, np.arange(length), length), length)
    following = np.minimum.accumulate(following[::-1])[::-1]
    pieces: list[Record] = []
    done = 0
    fills = [*restoration.alternatives, *[()] * (len(restoration.spans) - len(restoration.alternatives))]
    for span, found in zip(restoration.spans, fills, strict=True):
        start = span.start
        while not starts[start]:
            start -= 1
        pieces += _visible(restoration, done, max(start, done), following)
        done = max(start, done)
        stop = int(following[span.stop])
        if stop > done:  # else a piece before it has the whole character already
            pieces += _restored(restoration, span, done, stop, found)
            done = stop
    return pieces + _visible(restoration, done, length, following)


def _visible(restoration: Restoration, start: int, stop: int, following: np.ndarray[Any, Any]) -> list[Record]:
    """What was visible, cut where another expert's text begins."""
    if start >= stop:
        return []
    regions = restoration.regions[start:stop]
    changes = following[start + 1 + np.flatnonzero(np.diff(regions))]
    edges = sorted({start, *(int(edge) for edge in changes if edge < stop), stop})
    return [
        {
            "at": [first, last],
            "text": restoration.render(first, last).decode(),
            "expert": _expert(restoration, first),
        }
        for first, last in pairwise(edges)
    ]


def _restored(restoration: Restoration, span: Span, start: int, stop: int, fills: tuple[Fill, ...]) -> list[Record]:
    """What was lost, with the rest of characters that it is part of; what was left open is a piece of its own."""
    pieces = []
    opened = restoration.left_open[start:stop]
    origin = restoration.damaged.origins(np.array([start, stop - 1]))
    edges = sorted({start, *(start + edge for one in runs(opened) for edge in one), stop})
    for first, last in pairwise(edges):
        guess = restoration.tokens[first:last].astype(np.uint8).tobytes().decode()
        left, right = restoration.tokens[start : span.start], restoration.tokens[span.stop : stop]
        pieces.append(
            {
                "at": [first, last],
                "text": restoration.render(first, last).decode(),
                "expert": _expert(restoration, first),
                "origin": [int(origin[0, 0]), int(origin[1, 1])],
                "open": bool(restoration.left_open[first]),
                "guess": guess,
                "sure": _of_characters(restoration, first, guess),
                "weights": [_round(weight) for weight in restoration.field[first:last].mean(axis=0)],
                "fills": _fills(fills, bytes(left.tolist()), bytes(right.tolist())),
            }
        )
    return pieces


def _of_characters(restoration: Restoration, start: int, text: str) -> list[float | None]:
    """How sure each character is: its least sure byte."""
    found = []
    for character in text:
        stop = start + len(character.encode())
        found.append(_round(float(restoration.confidence[start:stop].min())))
        start = stop
    return found


def _fills(fills: tuple[Fill, ...], left: bytes, right: bytes) -> list[Record]:
    """Ways to fill a gap, with the visible rest of its characters; not those that need other gaps to be characters."""
    found = []
    for fill in fills:
        try:
            found.append({"text": (left + fill.data + right).decode(), "probability": _round(fill.probability)})
        except UnicodeDecodeError:
            continue
    return found


def _expert(restoration: Restoration, position: int) -> int | None:
    """Whose text a position is; None where nothing was read."""
    region = int(restoration.regions[position])
    return region if region >= 0 else None


def _curves(restoration: Restoration) -> Record:
    """The field and the damage in at most BINS bins: means; None where nothing was read."""
    length = len(restoration.tokens)
    edges = np.linspace(0, length, min(BINS, length) + 1).astype(np.int64)
    weights: list[list[float | None]] = [[] for _ in restoration.experts]
    lost = []
    for start, stop in pairwise(edges.tolist()):
        read = restoration.regions[start:stop] >= 0
        means = restoration.field[start:stop][read].mean(axis=0).tolist() if read.any() else [None] * len(weights)
        for column, mean in zip(weights, means, strict=True):
            column.append(_round(mean))
        lost.append(_round(float(restoration.changed[start:stop].mean())))
    return {"edges": edges.tolist(), "weights": weights, "lost": lost}


def _round(value: float | None) -> float | None:
    """Four digits after the point are more than is known."""
    return None if value is None else round(float(value), 4)
