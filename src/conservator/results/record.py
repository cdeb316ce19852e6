"""A restoration as a record of plain values: what JSON, the report and the page show."""

import json
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from conservator.decoders import Candidate
from conservator.numerics import runs
from conservator.results.changes import ChangesByByte, list_changes, summarize_changes
from conservator.results.restoration import SURE, Restoration, Span

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
    - ``confident``: the confidence of each character of ``guess``;
    - ``from``: for each character of ``guess``, where it was remembered from: ``[text, line]``, or None. The text is a
      number in ``references``, or None for the document itself. Lines count from 1; one whose end was lost goes on;
    - ``weights``: the mean weight of each expert;
    - ``fills``: the best joint fills of the gap, with their probabilities, also if the piece is open; for a gap of
      unknown length they have the length that was chosen, and their probability includes that of the length;
    - ``tally``: how many bytes (or characters, by ``unit``) of it were lost, how many of them are sure, and the sum of
      their confidence.

    A piece whose text was given (``fixed``) has all of these and ``chosen``: True; its characters are sure.

    If a part of a character was lost, the piece contains the whole character. ``encoding`` is the encoding that the
    document was read in; ``origin`` counts the bytes of its text in UTF-8. ``memory`` is the number of the expert that
    recalls text, None if there is none; ``references`` has the name of each text that bytes were remembered from, and
    how many restored bytes, and ``summary.provenance`` counts those from the document itself too. ``notices`` lists the
    conditions that the user should know, each with ``kind`` and ``message``. ``out_of_domain`` is True
    if the text is unlike every expert's, ``global_weight_suffices`` if one weight of each expert for the whole document would have
    restored about as much (None if that is not known). ``out_of_time`` is the stage in which time ran out, None if it
    did not: in ``decoding``, pieces that were not reached are open, or, if all were reached, chosen in fewer rounds; in
    ``writing again``, language models have no say; in ``alternatives``, there are none; in ``correcting``, lines that
    were not reached are as they were seen. ``lost`` says what each mark stands for, as the option does; where these are
    characters, the summary counts characters, and ``lost_by`` is the encoding that lost them, if there is one that has
    them all.

    ``precision`` has the number format, such as ``bfloat16``, that each pretrained expert computed in, by its name; the
    formats round differently.

    Where any character could be wrong, ``correction`` has the changes in a few numbers (``ChangeSummary``) and ``rate``
    (how often the reader of pages erred, as a multiple of what the channel says), and ``changes`` lists them
    (``list_changes``). A changed piece then has ``seen``, what stood there, and ``changes``, the half-open range of its
    changes in the list; one that only drops characters contains a character beside them.
    """
    summary = restoration.summary
    names = _references(restoration)
    return {
        "format": FORMAT,
        "lost": restoration.loss,
        "unit": restoration.unit,
        "lost_by": restoration.lost_by,
        "encoding": restoration.encoding,
        "strange": restoration.out_of_domain,
        "notices": [notice._asdict() for notice in restoration.notices],
        "global_weight_suffices": restoration.global_weight_suffices,
        "out_of_time": restoration.out_of_time,
        "experts": list(restoration.experts),
        "precision": dict(restoration.precision),
        "memory": len(restoration.experts) - 1 if restoration.is_retrieval else None,
        "references": [
            {"name": name.encode(errors="replace").decode(), "remembered": restoration.sources.get(name, 0)}
            for name in names
        ],
        "summary": {
            "bytes": summary.bytes,
            "lost": summary.lost,
            "places": summary.places,
            "restored": summary.restored,
            "left_open": summary.left_open,
            "expected_accuracy": _round(summary.expected_accuracy),
            "sure": summary.confident,
            "remembered": summary.provenance,
            "chosen": len(restoration.damaged.fixed),
        },
        "cost": {
            "evaluations": restoration.cost.evaluations,
            "seconds": _round(restoration.cost.seconds),
            "expert_seconds": _round(restoration.cost.expert_seconds),
        },
        "field": _curves(restoration),
        "pieces": _pieces(restoration, names),
        **_correction(restoration),
    }


def _correction(restoration: Restoration) -> Record:
    """What was changed, if the document could be wrong anywhere."""
    if restoration.rate is None:
        return {}
    numbers = asdict(summarize_changes(restoration.seen, restoration.changes))
    correction = {key: _round(value) if isinstance(value, float) else value for key, value in numbers.items()}
    return {
        "correction": {**correction, "rate": _round(restoration.rate)},
        "changes": list_changes(restoration.seen, restoration.changes),
    }


def _references(restoration: Restoration) -> dict[str, int]:
    """The number of each reference that a byte was remembered from; the most used comes first."""
    used = [*restoration.sources, *(one.name for one in restoration.provenance.values())]
    return {name: number for number, name in enumerate(dict.fromkeys(name for name in used if name is not None))}


def _pieces(restoration: Restoration, names: dict[str, int]) -> list[Record]:
    """The pieces of the document, from its first byte to its last."""
    length = len(restoration.tokens)
    starts = (restoration.tokens & 0xC0) != 0x80
    # A boundary within a character moves to its end, because half a character cannot be written as text.
    following = np.append(np.where(starts, np.arange(length), length), length)
    following = np.minimum.accumulate(following[::-1])[::-1]
    pieces: list[Record] = []
    done = 0
    fills = [*restoration.alternatives, *[()] * (len(restoration.spans) - len(restoration.alternatives))]
    changes = ChangesByByte(restoration.seen, restoration.changes) if restoration.is_correction else None
    places = [*zip(restoration.spans, fills, strict=True), *((span, None) for span in restoration.fixed)]
    for span, found in sorted(places, key=lambda place: place[0].start):
        start = span.start
        if found is None:
            pieces += _visible(restoration, done, start, following)
            pieces.append({**_restored(restoration, span, start, span.stop, (), names)[0], "chosen": True})
            done = span.stop
            continue
        while not starts[start]:
            start -= 1
        pieces += _visible(restoration, done, max(start, done), following)
        done = max(start, done)
        stop = int(following[span.stop])
        if stop > done:  # else an earlier piece contains the whole character already
            made = _restored(restoration, span, done, stop, found, names)
            pieces += made if changes is None else [{**one, **changes.within(*one["origin"])} for one in made]
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


def _restored(
    restoration: Restoration, span: Span, start: int, stop: int, fills: tuple[Candidate, ...], names: dict[str, int]
) -> list[Record]:
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
                "sure": [_round(restoration.confidence[one].min()) for one in _characters(first, guess)],
                "from": [_source(restoration, one, names) for one in _characters(first, guess)],
                "weights": [_round(weight) for weight in restoration.field[first:last].mean(axis=0)],
                "fills": _fills(fills, bytes(left.tolist()), bytes(right.tolist())),
                "tally": _tally(restoration, first, last),
            }
        )
    return pieces


def _tally(restoration: Restoration, start: int, stop: int) -> list[float | None]:
    """How many bytes or characters of a stretch were lost, how many of them are sure, the sum of their confidence."""
    counted = restoration.changed[start:stop] & restoration.counted[start:stop]
    confident = restoration.confidence[start:stop][counted]
    return [len(confident), int((confident >= SURE).sum()), _round(confident.sum())]


def _characters(start: int, text: str) -> list[slice]:
    """The positions of each character of a text that begins at ``start``."""
    edges = np.cumsum([start, *(len(character.encode()) for character in text)]).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]


def _source(restoration: Restoration, character: slice, names: dict[str, int]) -> list[int | None] | None:
    """The text, by its number, and the line that a character was remembered from: its first byte that was."""
    for position in range(character.start, character.stop):
        if position in restoration.provenance:
            one = restoration.provenance[position]
            if one.name is not None:
                return [names[one.name], one.line]
            return [None, one.line - restoration.lines_known_before(one.line)]
    return None


def _fills(fills: tuple[Candidate, ...], left: bytes, right: bytes) -> list[Record]:
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
    """The field and the damage as means over at most BINS bins; None where nothing was read.

    ``provenance`` is the mean weight of the memory at the lost bytes of each bin; None where there are none.
    """
    length = len(restoration.tokens)
    edges = np.linspace(0, length, min(BINS, length) + 1).astype(np.int64)
    weights: list[list[float | None]] = [[] for _ in restoration.experts]
    lost = []
    provenance: list[float | None] = []
    for start, stop in pairwise(edges.tolist()):
        read = restoration.regions[start:stop] >= 0
        means = restoration.field[start:stop][read].mean(axis=0).tolist() if read.any() else [None] * len(weights)
        for column, mean in zip(weights, means, strict=True):
            column.append(_round(mean))
        changed = restoration.changed[start:stop]
        lost.append(_round(float(changed.mean())))
        if restoration.is_retrieval:
            provenance.append(_round(restoration.field[start:stop, -1][changed].mean()) if changed.any() else None)
    return {"edges": edges.tolist(), "weights": weights, "lost": lost, "remembered": provenance}


def _round(value: float | None) -> float | None:
    """Round to four decimals, which is more than the precision of the values."""
    return None if value is None else round(float(value), 4)
