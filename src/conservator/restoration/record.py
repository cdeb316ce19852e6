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
    """The restoration as plain values; its main part is ``pieces``, a list of the document's pieces in order.

    Every piece has ``text`` (all of them together are the document), ``at`` (its half-open range of positions) and
    ``expert`` (the number of the expert whose text it is; None where nothing was read). A restored piece also has:

    - ``origin``: its half-open range of bytes in the damaged document;
    - ``open``: True if it was left unfilled, so that ``text`` has the mark;
    - ``guess``: the restored text, or the best guess if the piece is open;
    - ``sure``: the confidence of each character of ``guess``;
    - ``weights``: the mean weight of each expert;
    - ``fills``: the best joint fills of the gap, with their probabilities.

    If a part of a character was lost, the piece contains the whole character.
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
    """The pieces of the document, from its first byte to its last."""
    length = len(restoration.tokens)
    starts = (restoration.tokens & 0xC0) != 0x80
    # A boundary within a character moves to its end, because half a character cannot be written as text.
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
        if stop > done:  # else an earlier piece contains the whole character already
            pieces += _restored(restoration, span, done, stop, found)
            done = stop
    return pieces + _visible(restoration, done, length, following)


def _visible(restoration: Restoration, start: int, stop: int, following: np.ndarray[Any, Any]) -> list[Record]:
    """Visible text as pieces, cut where the text of another expert begins."""
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
    """A restored span as pieces, widened to whole characters; each part that was left open is a piece of its own."""
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
    """The confidence of each character: the lowest of its bytes."""
    found = []
    for character in text:
        stop = start + len(character.encode())
        found.append(_round(float(restoration.confidence[start:stop].min())))
        start = stop
    return found


def _fills(fills: tuple[Fill, ...], left: bytes, right: bytes) -> list[Record]:
    """The fills of a gap as text, with the visible bytes ``left`` and ``right`` of the characters that it is part of.

    A fill that makes whole characters only together with another gap is left out.
    """
    found = []
    for fill in fills:
        try:
            found.append({"text": (left + fill.data + right).decode(), "probability": _round(fill.probability)})
        except UnicodeDecodeError:
            continue
    return found


def _expert(restoration: Restoration, position: int) -> int | None:
    """The number of the expert whose text a position is; None where nothing was read."""
    region = int(restoration.regions[position])
    return region if region >= 0 else None


def _curves(restoration: Restoration) -> Record:
    """The field and the damage as means over at most BINS bins; None where nothing was read."""
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
    """Round to four decimals, which is more than the precision of the values."""
    return None if value is None else round(float(value), 4)
