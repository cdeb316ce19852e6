"""The record of a restoration, made from its edits, its confidences and the field."""

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from conservator.decoders import Candidate
from conservator.numerics import runs
from conservator.results.config import RESULTS
from conservator.results.edit import Edit
from conservator.results.record import (
    FORMAT,
    Alternative,
    CorrectionCounts,
    Curves,
    Piece,
    Range,
    Record,
    RecordedCost,
    Reference,
)
from conservator.results.restoration import Restoration, count
from conservator.results.summary import Counts, Summary


def make_record(restoration: Restoration) -> Record:
    """Return the record of a restoration."""
    references = _references(restoration)
    cost = restoration.cost
    return Record(
        format=FORMAT,
        lost=restoration.lost_unit,
        unit=restoration.unit,
        lost_by=restoration.lost_by,
        encoding=restoration.encoding,
        notices=restoration.notices,
        global_weight_suffices=restoration.global_weight_suffices,
        out_of_time=restoration.out_of_time,
        experts=restoration.experts,
        precision=dict(restoration.precision),
        memory=len(restoration.experts) - 1 if restoration.has_memory else None,
        references=tuple(
            Reference(name.encode(errors="replace").decode(), restoration.sources.get(name, 0)) for name in references
        ),
        summary=round_summary(restoration.summary),
        cost=RecordedCost(cost.evaluations, round_value(cost.seconds), round_value(cost.expert_seconds)),
        field=_curves(restoration),
        pieces=tuple(_pieces(restoration, references)),
        correction=_correction_counts(restoration),
    )


def round_value(value: float) -> float:
    """Round to four decimals, which exceeds the precision of the values."""
    return round(float(value), 4)


def round_summary(summary: Summary) -> Summary:
    """Return a summary with rounded values."""
    accuracy = summary.expected_accuracy
    rounded = {
        "expected_accuracy": None if accuracy is None else round_value(accuracy),
        "weights": tuple(map(round_value, summary.weights)),
    }
    return Summary(**{**vars(summary), **rounded})


def _correction_counts(restoration: Restoration) -> CorrectionCounts | None:
    """Return the counts of a correction; None if lost text was restored."""
    if not restoration.is_correction:
        return None
    observed = restoration.observed
    pairs = ((edit.text, observed[slice(*edit.span)].decode(errors="replace")) for edit in restoration.corrections)
    changed = sum(max(len(new), len(old)) for new, old in pairs)
    rate = None if restoration.rate is None else round_value(restoration.rate)
    return CorrectionCounts(restoration.channels, len(observed.decode(errors="replace")), changed, rate)


def _references(restoration: Restoration) -> dict[str, int]:
    """Return name -> index of each reference that a byte was copied from; the most used comes first."""
    names = [*restoration.sources, *(source.name for source in restoration.provenance.values())]
    return {name: index for index, name in enumerate(dict.fromkeys(name for name in names if name is not None))}


def _pieces(restoration: Restoration, references: dict[str, int]) -> list[Piece]:
    """Return the pieces of the document, from its first byte to its last."""
    length = restoration.length
    is_start = (restoration.tokens & 0xC0) != 0x80
    # A boundary within a character moves to its end, because a part of a character is not text.
    next_start = np.append(np.where(is_start, np.arange(length), length), length)
    next_start = np.minimum.accumulate(next_start[::-1])[::-1]
    pieces: list[Piece] = []
    done = line = observed_end = 0
    for edit, edited in zip(restoration.edits, restoration.ranges, strict=True):
        start, stop = edited
        is_whole = start == length or (is_start[start] and next_start[stop] == stop)  # consists of whole characters
        is_correction = restoration.is_correction and not edit.placeholders and is_whole
        if not edit.is_fixed and not is_correction:
            while not is_start[start]:
                start -= 1
            stop = int(next_start[stop])
        start = max(start, done)
        pieces += _visible(restoration, done, start, next_start)
        done = start
        if is_correction:
            line += restoration.observed.count(b"\n", observed_end, edit.span[0])
            observed_end = edit.span[0]
            pieces.append(_corrected(restoration, edit, (start, stop), line + 1))
        elif stop > start:  # otherwise an earlier piece contains the whole character already
            pieces += _filled(restoration, edit, edited, (start, stop), references)
        done = max(stop, done)
    return pieces + _visible(restoration, done, length, next_start)


def _visible(restoration: Restoration, start: int, stop: int, next_start: NDArray[np.int64]) -> list[Piece]:
    """Return visible text as pieces, split where the domain of another expert begins."""
    if start >= stop:
        return []
    regions = restoration.regions[start:stop]
    boundaries = next_start[start + 1 + np.flatnonzero(np.diff(regions))]
    edges = sorted({start, *(int(edge) for edge in boundaries if edge < stop), stop})
    return [
        Piece((first, last), _bytes(restoration, first, last).decode(), _expert(restoration, first))
        for first, last in pairwise(edges)
    ]


def _corrected(restoration: Restoration, edit: Edit, at: Range, line: int) -> Piece:
    """Return a correction as a piece; a deletion is an empty piece."""
    probability = round_value(edit.probability)
    is_finite = edit.log_odds is not None and np.isfinite(edit.log_odds)
    return Piece(
        at=at,
        text=edit.text,
        expert=_expert(restoration, at[0]) if edit.data else None,
        origin=edit.span,
        unfilled=False,
        guess=edit.text,
        probability=probability,
        log_odds=round_value(edit.log_odds) if edit.log_odds is not None and is_finite else None,
        confidence=(probability,) * len(edit.text),
        sources=(None,) * len(edit.text),
        weights=tuple(map(round_value, restoration.summary.weights)),
        alternatives=_alternatives(edit.alternatives, b"", b""),
        counts=_round_counts(count(np.array([edit.probability]))),
        observed=restoration.observed[slice(*edit.span)].decode(errors="replace"),
        line=line,
    )


def _filled(restoration: Restoration, edit: Edit, edited: Range, at: Range, references: dict[str, int]) -> list[Piece]:
    """Return a fill as pieces, widened to whole characters; each unfilled part is a separate piece.

    The fill has the positions ``edited``, and its whole characters ``at``.
    """
    start, stop = at
    left, right = _bytes(restoration, start, edited[0]), _bytes(restoration, edited[1], stop)
    origin = (restoration.origin(start)[0], restoration.origin(stop - 1)[1])
    inner_edges = (start + edge for run in runs(restoration.unfilled[start:stop]) for edge in run)
    pieces = []
    for first, last in pairwise(sorted({start, *inner_edges, stop})):
        guess = _bytes(restoration, first, last).decode()
        characters = _characters(first, guess)
        is_unfilled = bool(restoration.unfilled[first])
        written = edit.written(first - edited[0], last - edited[0]).decode(errors="replace")
        pieces.append(
            Piece(
                at=(first, last),
                text=written if is_unfilled or edit.markup else guess,
                expert=_expert(restoration, first),
                origin=origin,
                unfilled=is_unfilled,
                guess=guess,
                probability=round_value(edit.probability),
                confidence=tuple(round_value(restoration.confidence[character].min()) for character in characters),
                sources=tuple(_source(restoration, character, references) for character in characters),
                weights=tuple(map(round_value, restoration.field[first:last].mean(axis=0).tolist())),
                alternatives=_alternatives(edit.alternatives, left, right),
                counts=_round_counts(restoration.counts(slice(first, last))),
                fixed=True if edit.is_fixed else None,
            )
        )
    return pieces


def _round_counts(counts: Counts) -> Counts:
    return Counts(counts.lost, counts.confident, round_value(counts.confidence_sum))


def _bytes(restoration: Restoration, start: int, stop: int) -> bytes:
    """Return the bytes of a range of positions, with the best candidate where they are unfilled."""
    return restoration.tokens[start:stop].astype(np.uint8).tobytes()


def _characters(start: int, text: str) -> list[slice]:
    """Return the positions of each character of a text that begins at ``start``."""
    edges = accumulate((len(character.encode()) for character in text), initial=start)
    return [slice(first, last) for first, last in pairwise(edges)]


def _source(restoration: Restoration, character: slice, references: dict[str, int]) -> tuple[int | None, int] | None:
    """Return the reference and the line that a character was copied from: those of its first copied byte."""
    for position in range(character.start, character.stop):
        source = restoration.provenance.get(position)
        if source is not None and source.name is not None:
            return references[source.name], source.line
        if source is not None:
            return None, source.line - _count_fixed_line_ends(restoration, source.line)
    return None


def _count_fixed_line_ends(restoration: Restoration, line: int) -> int:
    """Return the number of line ends before a line, counted from 1, that are part of fixed text."""
    fixed = [at for edit, at in zip(restoration.edits, restoration.ranges, strict=True) if edit.is_fixed]
    ends = np.flatnonzero((restoration.tokens == ord("\n")) & ~restoration.changed)[: line - 1]
    return sum(int(np.searchsorted(ends, stop) - np.searchsorted(ends, start)) for start, stop in fixed)


def _alternatives(candidates: tuple[Candidate, ...], left: bytes, right: bytes) -> tuple[Alternative, ...]:
    """Return the candidates of a fill as text, with the visible bytes ``left`` and ``right`` of its outer characters.

    A candidate that makes whole characters only together with another fill is left out.
    """
    alternatives = []
    for candidate in candidates:
        try:
            text = (left + candidate.data + right).decode()
        except UnicodeDecodeError:
            continue
        alternatives.append(Alternative(text, round_value(candidate.probability)))
    return tuple(alternatives)


def _expert(restoration: Restoration, position: int) -> int | None:
    """Return the index of the expert whose domain a position belongs to; None where nothing was read."""
    region = int(restoration.regions[position])
    return region if region >= 0 else None


def _curves(restoration: Restoration) -> Curves:
    """Return the field and the damage as means over bins of positions."""
    length = restoration.length
    edges = np.linspace(0, length, min(RESULTS.max_curve_bins, length) + 1).astype(np.int64).tolist()
    weights: list[list[float | None]] = [[] for _ in restoration.experts]
    lost_fraction = []
    provenance: list[float | None] = []
    for start, stop in pairwise(edges):
        read = restoration.regions[start:stop] >= 0
        means = restoration.field[start:stop][read].mean(axis=0).tolist() if read.any() else [None] * len(weights)
        for column, mean in zip(weights, means, strict=True):
            column.append(None if mean is None else round_value(mean))
        changed = restoration.changed[start:stop]
        lost_fraction.append(round_value(changed.mean()))
        if restoration.has_memory:
            memory = restoration.field[start:stop, -1][changed]
            provenance.append(round_value(memory.mean()) if changed.any() else None)
    return Curves(tuple(edges), tuple(map(tuple, weights)), tuple(lost_fraction), tuple(provenance))
