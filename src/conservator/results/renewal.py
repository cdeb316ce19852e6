"""Renewal of a record after a change of fixed texts: only their surroundings are restored again."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from conservator.documents import FixedText
from conservator.errors import ConservatorError
from conservator.results.config import RESULTS
from conservator.results.notices import TIME_LIMIT
from conservator.results.pieces import round_summary, round_value
from conservator.results.record import Alternative, Curves, Piece, Range, Record, RecordedCost, Reference
from conservator.results.restoration import find_encoding
from conservator.results.summary import CountedPart, Summary, summarize

OTHER_DOCUMENT = "the previous record belongs to another document or to other options; omit it"


class LostSpan(NamedTuple):
    """A lost span of a record: the pieces for the same bytes of the damaged document.

    Attributes:
        pieces: Pieces of the record.
        origin: Half-open range of bytes of the damaged document.
        at: Half-open range of positions.
    """

    pieces: tuple[Piece, ...]
    origin: Range
    at: Range

    @property
    def text(self) -> str:
        """Its text, or the best candidate where it is unfilled."""
        return "".join(piece.guess or "" for piece in self.pieces)

    @property
    def is_fixed(self) -> bool:
        """Whether its text is fixed."""
        return self.pieces[0].fixed is True


class Renewal(NamedTuple):
    """A plan of what is restored again.

    Attributes:
        fixed: Fixed text of every span that is not restored again: those of the user, and spans far from changes.
        unchanged: Spans of the old record that stay as they are.
        replaced: Ranges of positions of the old record that are replaced, in order, separated by ``unchanged`` spans.
    """

    fixed: tuple[FixedText, ...]
    unchanged: tuple[LostSpan, ...]
    replaced: tuple[Range, ...]


def plan_renewal(record: Record, fixed: Sequence[FixedText]) -> Renewal:
    """Plan the renewal of a record, given all fixed texts of the user."""
    if record.correction is not None:
        raise ConservatorError("fixed text needs lost text, but the record is that of a corrected text")
    spans = list_lost_spans(record.pieces)
    new_texts = {(start, stop): text for start, stop, text in fixed}
    old_texts = {span.origin: span.text for span in spans if span.is_fixed}
    altered = Ranges(
        origin for origin in new_texts.keys() | old_texts.keys() if new_texts.get(origin) != old_texts.get(origin)
    )
    changed = [span for span in spans if altered.overlap(span.origin)]
    lost = Ranges(span.origin for span in spans)
    for start, stop in altered.ranges:
        if not lost.overlap((start, stop)):
            raise ConservatorError(f"nothing was lost at the bytes {start} to {stop} of the document")
    radius = RESULTS.renewal_radius_bytes
    surroundings = Ranges((span.at[0] - radius, span.at[1] + radius) for span in changed)
    is_renewed = [surroundings.overlap(span.at) for span in spans]
    unchanged = tuple(span for span, renewed in zip(spans, is_renewed, strict=True) if not renewed)
    unchanged_origins = Ranges(span.origin for span in unchanged)
    all_fixed = [(*span.origin, span.text) for span in unchanged]
    all_fixed += [text for text in fixed if not unchanged_origins.overlap((text[0], text[1]))]
    replaced: list[Range] = []
    for index, span in enumerate(spans):
        if is_renewed[index] and index and is_renewed[index - 1]:
            replaced[-1] = (replaced[-1][0], span.at[1])
        elif is_renewed[index]:
            replaced.append(span.at)
    return Renewal(tuple(sorted(all_fixed)), unchanged, tuple(replaced))


def renew(record: Record, update: Record, renewal: Renewal) -> Record:
    """Return the record with the ranges that the plan replaces taken from ``update``."""
    fixed = {span.origin: span for span in list_lost_spans(update.pieces) if span.is_fixed}
    same_experts = (record.experts, record.memory, record.unit) == (update.experts, update.memory, update.unit)
    if not same_experts or any(span.origin not in fixed for span in renewal.unchanged):
        raise ConservatorError(OTHER_DOCUMENT)
    anchors = [(span.at[0], fixed[span.origin].at[0] - span.at[0]) for span in renewal.unchanged]
    length, longer = record.summary.bytes, update.summary.bytes - record.summary.bytes
    names = [reference.name for reference in record.references]
    names += [reference.name for reference in update.references if reference.name not in names]
    indices = [names.index(reference.name) for reference in update.references]
    alternatives = {span.origin: span.pieces[0].alternatives for span in list_lost_spans(record.pieces)}
    pieces: list[Piece] = []
    parts: list[tuple[Range, Range, bool]] = []  # range in the old record, range in the new one, whether it is renewed
    done = shift = 0
    for start, stop in [*renewal.replaced, (length, length)]:
        parts.append(((done, start), (done + shift, start + shift), False))
        later = bisect_left(anchors, (stop,))
        next_shift = anchors[later][1] if later < len(anchors) else longer
        parts.append(((start, stop), (start + shift, stop + next_shift), True))
        done, shift = stop, next_shift
    for old, new, is_renewed in parts:
        if is_renewed:
            pieces += [_adopt(piece, indices, alternatives) for piece in _between(update.pieces, *new)]
        else:
            by = new[0] - old[0]
            pieces += [
                replace(piece, at=(piece.at[0] + by, piece.at[1] + by)) for piece in _between(record.pieces, *old)
            ]
    if [piece.at[0] for piece in pieces] != [0, *(piece.at[1] for piece in pieces)][: len(pieces)]:
        raise ConservatorError(OTHER_DOCUMENT)
    keeps_restored = any(not span.is_fixed for span in renewal.unchanged)
    restored = "".join(piece.guess or "" for piece in pieces if piece.origin is not None and not piece.fixed)
    references = (Reference(name, _count_copied(pieces, index, record.unit)) for index, name in enumerate(names))
    notices = [notice for notice in record.notices if keeps_restored or notice.kind != TIME_LIMIT]
    notices += [notice for notice in update.notices if notice.kind == TIME_LIMIT and notice not in notices]
    return replace(
        record,
        notices=tuple(notices),
        out_of_time=update.out_of_time or (record.out_of_time if keeps_restored else None),
        lost_by=find_encoding(restored, record.lost) if record.unit == "character" else None,
        references=tuple(references),
        summary=summarize_pieces(pieces, update.summary.bytes, record),
        cost=RecordedCost(
            record.cost.evaluations + update.cost.evaluations,
            round_value(record.cost.seconds + update.cost.seconds),
            round_value(record.cost.expert_seconds + update.cost.expert_seconds),
        ),
        field=_merge_curves(record.field, update.field, parts),
        pieces=tuple(pieces),
    )


def list_lost_spans(pieces: Iterable[Piece]) -> list[LostSpan]:
    """Return the lost spans of a record, in order."""
    spans: list[LostSpan] = []
    for piece in pieces:
        if piece.origin is None:
            continue
        last = spans[-1] if spans else None
        if last is not None and piece.origin[0] < last.origin[1] and not piece.fixed:
            stop = max(last.origin[1], piece.origin[1])
            spans[-1] = LostSpan((*last.pieces, piece), (last.origin[0], stop), (last.at[0], piece.at[1]))
        else:
            spans.append(LostSpan((piece,), piece.origin, piece.at))
    return spans


def summarize_pieces(pieces: Sequence[Piece], length: int, record: Record) -> Summary:
    """Return the summary of pieces with ``length`` bytes; ``record`` has the unit and the experts."""
    spans = list_lost_spans(pieces)
    parts = [
        CountedPart(piece.counts, piece.unfilled is True, piece.weights)
        for piece in pieces
        if piece.counts is not None and piece.weights is not None
    ]
    summary = summarize(
        parts,
        len(record.experts),
        length=length,
        spans=sum(not span.is_fixed for span in spans),
        provenance=_count_copied(pieces, None, record.unit),
        fixed=sum(span.is_fixed for span in spans),
    )
    return round_summary(summary)


class Ranges:
    """Half-open ranges; overlapping ranges are merged.

    Attributes:
        ranges: Disjoint ranges, in order.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        """Sort and merge the ranges."""
        self.ranges: list[Range] = []
        for start, stop in sorted(ranges):
            if self.ranges and start < self.ranges[-1][1]:
                self.ranges[-1] = (self.ranges[-1][0], max(stop, self.ranges[-1][1]))
            else:
                self.ranges.append((start, stop))

    def overlap(self, other: Range) -> bool:
        """Return whether any of the ranges overlaps another one."""
        last = bisect_left(self.ranges, (other[1],)) - 1  # the last range that begins before the end of the other
        return last >= 0 and self.ranges[last][1] > other[0]


def _between(pieces: Sequence[Piece], start: int, stop: int) -> Iterator[Piece]:
    """Yield the pieces between two positions; visible text is split there."""
    for piece in pieces:
        first, last = max(start, piece.at[0]), min(stop, piece.at[1])
        if first >= last:
            continue
        if (first, last) != piece.at:
            data = piece.text.encode()[first - piece.at[0] : last - piece.at[0]]
            piece = replace(piece, at=(first, last), text=data.decode(errors="replace"))
        yield piece


def _adopt(piece: Piece, indices: Sequence[int], alternatives: dict[Range, tuple[Alternative, ...] | None]) -> Piece:
    """Return a piece of another record with its references renumbered; fixed text keeps its old alternatives."""
    if piece.origin is None or piece.sources is None:
        return piece
    sources = tuple(
        source if source is None or source[0] is None else (indices[source[0]], source[1]) for source in piece.sources
    )
    if not piece.fixed:
        return replace(piece, sources=sources)
    return replace(piece, sources=sources, alternatives=alternatives.get(piece.origin) or ())


def _count_copied(pieces: Sequence[Piece], reference: int | None, unit: str) -> int:
    """Return how many bytes or characters were copied from a reference; None counts all, and the document itself."""
    return sum(
        len(character.encode()) if unit == "byte" else 1
        for piece in pieces
        if not piece.unfilled
        for character, source in zip(piece.guess or "", piece.sources or (), strict=True)
        if source is not None and (reference is None or source[0] == reference)
    )


def _merge_curves(old: Curves, new: Curves, parts: Sequence[tuple[Range, Range, bool]]) -> Curves:
    """Return the curves of two records, each over the parts that come from it."""
    bins: list[tuple[Curves, int]] = []
    for first, last in pairwise(new.edges):
        middle = (first + last) / 2
        (old_start, _), (new_start, _), is_renewed = next(part for part in reversed(parts) if part[1][0] <= middle)
        position = middle if is_renewed else old_start + middle - new_start
        source = new if is_renewed else old
        index = bisect_right(source.edges, position) - 1
        bins.append((source, min(max(index, 0), len(source.lost_fraction) - 1)))
    experts = range(len(new.weights))
    return Curves(
        edges=new.edges,
        weights=tuple(tuple(source.weights[expert][index] for source, index in bins) for expert in experts),
        lost_fraction=tuple(source.lost_fraction[index] for source, index in bins),
        provenance=tuple(source.provenance[index] for source, index in bins) if new.provenance else (),
    )
