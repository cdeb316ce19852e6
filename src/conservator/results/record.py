"""The record of a restoration: plain values that the JSON file, the report and the web page show."""

import json
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from conservator.decoders import Candidate
from conservator.numerics import runs
from conservator.results.changes import ChangesByByte, list_changes, summarize_changes
from conservator.results.config import RESULTS
from conservator.results.restoration import Restoration, Span

FORMAT = "conservator restoration 2"

Record = dict[str, Any]


def as_json(restoration: Restoration) -> str:
    """Return the record and the text as JSON."""
    return json.dumps({**as_record(restoration), "text": restoration.text}, ensure_ascii=False, allow_nan=False) + "\n"


def as_record(restoration: Restoration) -> Record:
    """Return the restoration as plain values.

    The main part is ``pieces``, a list of the document's pieces in order. Every piece has ``text`` (together they are
    the document), ``at`` (its half-open range of positions) and ``expert`` (index of the expert whose domain it belongs
    to; None where nothing was read). A restored piece also has:

    - ``origin``: its half-open range of bytes in the damaged document;
    - ``unfilled``: True if ``text`` is the mark;
    - ``guess``: the restored text, or the best candidate if the piece is unfilled;
    - ``confidence``: the confidence of each character of ``guess``;
    - ``from``: the provenance of each character of ``guess``: ``[text, line]`` that the memory copied it from, or None.
      The text is an index into ``references``, or None for the document itself. Lines count from 1 and end at visible
      line ends;
    - ``weights``: the mean weight of each expert;
    - ``alternatives``: the best candidates of the gap with their probabilities, also if the piece is unfilled. For a
      gap of unknown length they have the chosen length, and their probability includes that of the length;
    - ``counts``: the number of ``lost`` bytes (or characters, see ``unit``), how many of them are ``confident``, and
      ``confidence_sum``, the sum of their confidences.

    A piece with fixed text has all of these and ``fixed``: True; its characters have confidence 1.

    If a part of a character was lost, the piece contains the whole character. The other values are:

    - ``lost``: what each mark stands for, a value of the option ``lost``;
    - ``unit``: the unit of the counts, ``byte`` or ``character``;
    - ``lost_by``: if marks are characters, the encoding that lost them, or None if no known encoding has them all;
    - ``encoding``: the encoding that the document was read in; ``origin`` counts the bytes of its text in UTF-8;
    - ``out_of_domain``: True if no expert predicts the text well;
    - ``notices``: statements for the user, each with ``kind`` and ``message``;
    - ``global_weight_suffices``: True if a global weight would have restored about as much; None if unknown;
    - ``out_of_time``: the stage that the time limit interrupted, or None. In ``decoding``, pieces that were not reached
      are unfilled, or, if all were reached, decoded in fewer iterations; in ``rescoring``, the language models have no
      effect; in ``alternatives``, there are none; in ``correcting``, lines that were not reached are unchanged;
    - ``experts``: the names of the experts; ``memory`` is the index of the memory, None if there is none;
    - ``precision``: expert -> the number format of its arithmetic, such as ``bfloat16``, for pretrained experts;
    - ``references``: the name of each text that bytes were copied from, and ``provenance``, the number of these bytes;
      ``summary.provenance`` also counts bytes that were copied from the document itself;
    - ``summary``: the counts of ``Summary``, and ``fixed``, the number of spans with fixed text;
    - ``field``: curves along the document, see ``_curves``.

    If OCR errors were corrected, ``correction`` has the counts of ``ChangeSummary`` and ``rate`` (the OCR error rate of
    this document as a multiple of the channel's), and ``changes`` lists the changes (``list_changes``). A changed piece
    then has ``observed``, its text before the changes, and ``changes``, the half-open range of its changes in the list;
    a piece that only deletes characters contains a neighbouring character.
    """
    summary = restoration.summary
    references = _references(restoration)
    return {
        "format": FORMAT,
        "lost": restoration.lost_unit,
        "unit": restoration.unit,
        "lost_by": restoration.lost_by,
        "encoding": restoration.encoding,
        "out_of_domain": restoration.out_of_domain,
        "notices": [notice._asdict() for notice in restoration.notices],
        "global_weight_suffices": restoration.global_weight_suffices,
        "out_of_time": restoration.out_of_time,
        "experts": list(restoration.experts),
        "precision": dict(restoration.precision),
        "memory": len(restoration.experts) - 1 if restoration.has_memory else None,
        "references": [
            {"name": name.encode(errors="replace").decode(), "provenance": restoration.sources.get(name, 0)}
            for name in references
        ],
        "summary": {
            "bytes": summary.bytes,
            "lost": summary.lost,
            "spans": summary.spans,
            "restored": summary.restored,
            "unfilled": summary.unfilled,
            "expected_accuracy": _round(summary.expected_accuracy),
            "confident": summary.confident,
            "provenance": summary.provenance,
            "fixed": len(restoration.damaged.fixed),
        },
        "cost": {
            "evaluations": restoration.cost.evaluations,
            "seconds": _round(restoration.cost.seconds),
            "expert_seconds": _round(restoration.cost.expert_seconds),
        },
        "field": _curves(restoration),
        "pieces": _pieces(restoration, references),
        **_correction(restoration),
    }


def _correction(restoration: Restoration) -> Record:
    """Return the changes and their counts; an empty record if no OCR errors were corrected."""
    if restoration.rate is None:
        return {}
    counts = asdict(summarize_changes(restoration.observed, restoration.changes))
    correction = {key: _round(value) if isinstance(value, float) else value for key, value in counts.items()}
    return {
        "correction": {**correction, "rate": _round(restoration.rate)},
        "changes": list_changes(restoration.observed, restoration.changes),
    }


def _references(restoration: Restoration) -> dict[str, int]:
    """Return name -> index of each reference that a byte was copied from; the most used comes first."""
    names = [*restoration.sources, *(source.name for source in restoration.provenance.values())]
    return {name: index for index, name in enumerate(dict.fromkeys(name for name in names if name is not None))}


def _pieces(restoration: Restoration, references: dict[str, int]) -> list[Record]:
    """Return the pieces of the document, from its first byte to its last."""
    length = len(restoration.tokens)
    is_start = (restoration.tokens & 0xC0) != 0x80
    # A boundary within a character moves to its end, because a part of a character is not text.
    next_start = np.append(np.where(is_start, np.arange(length), length), length)
    next_start = np.minimum.accumulate(next_start[::-1])[::-1]
    pieces: list[Record] = []
    done = 0
    alternatives = [*restoration.alternatives, *[()] * (len(restoration.spans) - len(restoration.alternatives))]
    changes = ChangesByByte(restoration.observed, restoration.changes) if restoration.is_correction else None
    spans = [*zip(restoration.spans, alternatives, strict=True), *((span, None) for span in restoration.fixed)]
    for span, candidates in sorted(spans, key=lambda item: item[0].start):
        start = span.start
        if candidates is None:
            pieces += _visible(restoration, done, start, next_start)
            pieces.append({**_restored(restoration, span, start, span.stop, (), references)[0], "fixed": True})
            done = span.stop
            continue
        while not is_start[start]:
            start -= 1
        pieces += _visible(restoration, done, max(start, done), next_start)
        done = max(start, done)
        stop = int(next_start[span.stop])
        if stop > done:  # otherwise an earlier piece contains the whole character already
            restored = _restored(restoration, span, done, stop, candidates, references)
            pieces += (
                restored if changes is None else [{**piece, **changes.within(*piece["origin"])} for piece in restored]
            )
            done = stop
    return pieces + _visible(restoration, done, length, next_start)


def _visible(restoration: Restoration, start: int, stop: int, next_start: np.ndarray[Any, Any]) -> list[Record]:
    """Return visible text as pieces, split where the domain of another expert begins."""
    if start >= stop:
        return []
    regions = restoration.regions[start:stop]
    boundaries = next_start[start + 1 + np.flatnonzero(np.diff(regions))]
    edges = sorted({start, *(int(edge) for edge in boundaries if edge < stop), stop})
    return [
        {
            "at": [first, last],
            "text": restoration.render(first, last).decode(),
            "expert": _expert(restoration, first),
        }
        for first, last in pairwise(edges)
    ]


def _restored(
    restoration: Restoration,
    span: Span,
    start: int,
    stop: int,
    candidates: tuple[Candidate, ...],
    references: dict[str, int],
) -> list[Record]:
    """Return a restored span as pieces, widened to whole characters; each unfilled part is a separate piece."""
    pieces = []
    unfilled = restoration.unfilled[start:stop]
    origin = restoration.damaged.origins(np.array([start, stop - 1]))
    edges = sorted({start, *(start + edge for run in runs(unfilled) for edge in run), stop})
    for first, last in pairwise(edges):
        guess = restoration.tokens[first:last].astype(np.uint8).tobytes().decode()
        left, right = restoration.tokens[start : span.start], restoration.tokens[span.stop : stop]
        characters = _characters(first, guess)
        pieces.append(
            {
                "at": [first, last],
                "text": restoration.render(first, last).decode(),
                "expert": _expert(restoration, first),
                "origin": [int(origin[0, 0]), int(origin[1, 1])],
                "unfilled": bool(restoration.unfilled[first]),
                "guess": guess,
                "confidence": [_round(restoration.confidence[character].min()) for character in characters],
                "from": [_source(restoration, character, references) for character in characters],
                "weights": [_round(weight) for weight in restoration.field[first:last].mean(axis=0)],
                "alternatives": _alternatives(candidates, bytes(left.tolist()), bytes(right.tolist())),
                "counts": _counts(restoration, first, last),
            }
        )
    return pieces


def _counts(restoration: Restoration, start: int, stop: int) -> Record:
    """Return the counts of a piece: lost bytes or characters, how many are confident, and their total confidence."""
    counted = restoration.changed[start:stop] & restoration.counted[start:stop]
    confidence = restoration.confidence[start:stop][counted]
    return {
        "lost": len(confidence),
        "confident": int((confidence >= RESULTS.min_confident).sum()),
        "confidence_sum": _round(confidence.sum()),
    }


def _characters(start: int, text: str) -> list[slice]:
    """Return the positions of each character of a text that begins at ``start``."""
    edges = np.cumsum([start, *(len(character.encode()) for character in text)]).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]


def _source(restoration: Restoration, character: slice, references: dict[str, int]) -> list[int | None] | None:
    """Return the reference and the line that a character was copied from: those of its first copied byte."""
    for position in range(character.start, character.stop):
        if position in restoration.provenance:
            source = restoration.provenance[position]
            if source.name is not None:
                return [references[source.name], source.line]
            return [None, source.line - restoration.count_fixed_line_ends(source.line)]
    return None


def _alternatives(candidates: tuple[Candidate, ...], left: bytes, right: bytes) -> list[Record]:
    """Return the candidates of a gap as text, with the visible bytes ``left`` and ``right`` of its outer characters.

    A candidate that makes whole characters only together with another gap is left out.
    """
    alternatives = []
    for candidate in candidates:
        try:
            text = (left + candidate.data + right).decode()
        except UnicodeDecodeError:
            continue
        alternatives.append({"text": text, "probability": _round(candidate.probability)})
    return alternatives


def _expert(restoration: Restoration, position: int) -> int | None:
    """Return the index of the expert whose domain a position belongs to; None where nothing was read."""
    region = int(restoration.regions[position])
    return region if region >= 0 else None


def _curves(restoration: Restoration) -> Record:
    """Return the field and the damage as means over bins of positions.

    ``edges`` are the positions between the bins, ``weights`` has a list for each expert (None in bins where nothing was
    read), and ``lost_fraction`` is the fraction of lost or changed bytes. ``provenance`` is the mean weight of the
    memory at these bytes (None in bins without any); it is empty if there is no memory.
    """
    length = len(restoration.tokens)
    edges = np.linspace(0, length, min(RESULTS.max_curve_bins, length) + 1).astype(np.int64)
    weights: list[list[float | None]] = [[] for _ in restoration.experts]
    lost_fraction = []
    provenance: list[float | None] = []
    for start, stop in pairwise(edges.tolist()):
        read = restoration.regions[start:stop] >= 0
        means = restoration.field[start:stop][read].mean(axis=0).tolist() if read.any() else [None] * len(weights)
        for column, mean in zip(weights, means, strict=True):
            column.append(_round(mean))
        changed = restoration.changed[start:stop]
        lost_fraction.append(_round(float(changed.mean())))
        if restoration.has_memory:
            provenance.append(_round(restoration.field[start:stop, -1][changed].mean()) if changed.any() else None)
    return {"edges": edges.tolist(), "weights": weights, "lost_fraction": lost_fraction, "provenance": provenance}


def _round(value: float | None) -> float | None:
    """Round to four decimals, which exceeds the precision of the values."""
    return None if value is None else round(float(value), 4)
