"""Restorations in sequence: the second one restores the text that the first one wrote.

The spans of the second result refer to that text. ``compose`` translates them to the damaged document, and joins edits
that overlap: their probability is the product of the probabilities, and their log-odds are the sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.channels import OcrConfidence
from conservator.documents import Pin, splice
from conservator.pipelines.task import PipelineTask
from conservator.results import Edit, Gap, Restoration

Span = tuple[int, int]


@dataclass(frozen=True)
class Group:
    """Edits of both results that overlap.

    Attributes:
        first: Edits of the first result, with their spans in the text between the two.
        second: Edits of the second result.
        at: Half-open range of bytes of the text between the two.
        span: The same in the damaged document.
        positions: The same in the positions of the second result.
    """

    first: tuple[tuple[Span, Edit], ...]
    second: tuple[Edit, ...]
    at: Span
    span: Span
    positions: Span

    @property
    def is_joined(self) -> bool:
        """Whether edits of both results change the text."""
        return bool(self.second) and not all(edit.placeholders for _, edit in self.first)

    def edit(self, between: bytes) -> Edit:
        """Return one edit of the damaged document; ``between`` is the text between the two results."""
        if not self.second:
            return self.first[0][1]
        shift = self.span[0] - self.at[0]
        if not self.is_joined and len(self.second) == 1 and self.second[0].span == self.at:
            edit = self.second[0]
            return replace(
                edit,
                span=self.span,
                byte_spans=tuple((start + shift, stop + shift) for start, stop in edit.byte_spans),
            )
        edits = [*(edit for _, edit in self.first if not edit.placeholders), *self.second]
        log_odds = [edit.log_odds for edit in edits]
        start = self.at[0]
        pieces = [(edit.span[0] - start, edit.span[1] - start, edit.written()) for edit in self.second]
        return Edit(
            self.span,
            splice(between[slice(*self.at)], pieces),
            prod(edit.probability for edit in edits),
            None if None in log_odds else sum(value for value in log_odds if value is not None),
            is_fixed=all(edit.is_fixed for edit in edits),
        )


def pinned_task(task: PipelineTask, result: Restoration) -> PipelineTask:
    """Return the task for the next stage: it restores the text of ``result`` and keeps all edits of it.

    Markers that were left unfilled stay, too.
    """
    pins = [(*at, edit.written()) for at, edit in zip(written_ranges(result), result.edits, strict=True)]
    return next_task(task, result, pins)


def next_task(task: PipelineTask, result: Restoration, pins: Sequence[Pin] | None = None) -> PipelineTask:
    """Return the task of restoring the text of ``result``; by default, only texts that the user fixed stay."""
    if pins is None:
        ranges = zip(written_ranges(result), result.edits, strict=True)
        pins = [(*at, edit.data) for at, edit in ranges if edit.is_fixed]
    document = replace(
        task.document, data=result.data, ocr_confidence=spliced_confidence(task.document.ocr_confidence, result)
    )
    return replace(task, document=document, fixed=(), pins=pins)


def written_ranges(result: Restoration) -> list[Span]:
    """Return the half-open range of ``result.data`` of each edit."""
    sizes = [len(edit.written()) for edit in result.edits]
    longer = accumulate(
        (size - edit.span[1] + edit.span[0] for size, edit in zip(sizes, result.edits, strict=True)), initial=0
    )
    starts = [edit.span[0] + shift for edit, shift in zip(result.edits, longer, strict=False)]
    return [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def spliced_confidence(confidence: OcrConfidence | None, result: Restoration) -> OcrConfidence | None:
    """Return the OCR confidences of the characters of ``result.data``; edited characters have none."""
    if confidence is None or not result.edits:
        return confidence
    parts: list[OcrConfidence] = []
    done = 0
    for edit in result.edits:
        start, stop = (len(result.observed[:byte].decode(errors="surrogateescape")) for byte in edit.span)
        parts += [
            confidence.part(done, start),
            OcrConfidence.uninformative(len(edit.written().decode(errors="replace"))),
        ]
        done = stop
    parts.append(confidence.part(done, len(confidence)))
    return OcrConfidence(
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.wrong for part in parts]),
        np.concatenate([*(part.deletion[: len(part)] for part in parts), parts[-1].deletion[-1:]]),
        tuple(alternatives for part in parts for alternatives in part.alternatives),
    )


def compose(first: Restoration, second: Restoration) -> Restoration:
    """Return the result of two restorations in sequence.

    Args:
        first: The result for the damaged document.
        second: The result for the text of ``first``.
    """
    groups = list(group_edits(first, second))
    edits = [group.edit(second.observed) for group in groups]
    changed = [
        edit.is_fixed or bool(edit.placeholders) or edit.data != first.observed[slice(*edit.span)] for edit in edits
    ]
    groups = [group for group, flag in zip(groups, changed, strict=True) if flag]
    edits = [edit for edit, flag in zip(edits, changed, strict=True) if flag]
    experts, ungated = join_experts(first, second)
    composed = replace(
        second,
        observed=first.observed,
        edits=tuple(edits),
        gaps=(),
        experts=experts,
        has_memory=first.has_memory or second.has_memory,
        ungated=ungated,
        cross_entropy=second.cross_entropy if first.cross_entropy is None else first.cross_entropy,
        local_gain=second.local_gain if first.local_gain is None else first.local_gain,
        channels=tuple(dict.fromkeys([*first.channels, *second.channels])),
        rate=first.rate if second.rate is None else second.rate,
        lost_unit=first.lost_unit if first.unit == "character" else second.lost_unit,
        out_of_time=first.out_of_time or second.out_of_time,
        notices=tuple(dict.fromkeys([*first.notices, *second.notices])),
        cost=first.cost + second.cost,
        precision={**first.precision, **second.precision},
    )
    return with_arrays(composed, groups, first, second)


def group_edits(first: Restoration, second: Restoration) -> Iterator[Group]:
    """Yield the edits of both results, in order; those that overlap are in one group.

    An edit of the first result that stays unfilled changes no text, so an edit of the second one replaces it.
    """
    items: list[tuple[Span, Edit, bool]] = [
        (at, edit, True) for at, edit in zip(written_ranges(first), first.edits, strict=True)
    ]
    pinned = {at for at, _, _ in items}
    items += [(edit.span, edit, False) for edit in second.edits if not (edit.is_fixed and edit.span in pinned)]
    items.sort(key=lambda item: (item[0], not item[2]))
    shift = position_shift = index = 0  # of the damaged document, and of the second result, relative to the text
    while index < len(items):
        start, stop = items[index][0]
        end = index + 1
        while end < len(items) and (items[end][0][0] < stop or (items[end][0] == (start, start) and start == stop)):
            stop = max(stop, items[end][0][1])
            end += 1
        members = items[index:end]
        first_edits = tuple((at, edit) for at, edit, is_first in members if is_first)
        others = tuple(edit for _, edit, is_first in members if not is_first)
        longer = sum(edit.span[1] - edit.span[0] - (at[1] - at[0]) for at, edit in first_edits)
        added = sum(len(edit.data) - edit.span[1] + edit.span[0] for edit in others)
        span = (start + shift, stop + shift + longer)
        positions = (start + position_shift, stop + position_shift + added)
        yield Group(first_edits, others, (start, stop), span, positions)
        shift += longer
        position_shift += added
        index = end


def join_experts(first: Restoration, second: Restoration) -> tuple[tuple[str, ...], int]:
    """Return the experts of both results, and the number of those without a gate; the memory comes last."""
    leading, trailing = (second, first) if first.has_memory and not second.has_memory else (first, second)
    names = tuple(name for name in leading.experts if name not in trailing.experts)
    ungated = len(trailing.experts) if trailing.ungated is None else trailing.ungated
    return (*names, *trailing.experts), len(names) + ungated


def with_arrays(composed: Restoration, groups: Sequence[Group], first: Restoration, second: Restoration) -> Restoration:
    """Return the composed result with the positions, confidences, weights and gaps of both results.

    The second result describes visible text and its edits, the first one its edits that the second one did not change.

    Args:
        composed: The result, whose edits are those of ``groups``, without arrays.
        groups: The groups of edits.
        first: The first result.
        second: The second result.
    """
    columns = {id(result): [composed.experts.index(name) for name in result.experts] for result in (first, second)}
    # Position of the second result -> position of the composed one. They differ after unfilled markers.
    shift, is_replaced = np.zeros(second.length + 1, dtype=np.int64), np.zeros(second.length + 1, dtype=bool)
    first_ranges = {edit.span: positions for edit, positions in zip(first.edits, first.ranges, strict=True)}
    positions, confidence, regions = list[Ints](), list[Floats](), list[Ints]()
    fields = list[Floats]()
    for group, edit, (start, stop) in zip(groups, composed.edits, composed.ranges, strict=True):
        if group.second and not group.is_joined:
            continue
        left, right = group.positions
        is_replaced[left:right] = True
        shift[right] += (stop - start) - (right - left)
        if edit.is_fixed or start == stop:
            continue
        weights = np.zeros((stop - start, len(composed.experts)))
        if group.second:
            values = np.full(stop - start, edit.probability)
            weights[:, columns[id(second)]] = second.mean_weights
        else:
            inside = slice(*first_ranges[edit.span])
            values, weights[:, columns[id(first)]] = first.confidence[inside], first.field[inside]
        positions.append(np.arange(start, stop))
        confidence.append(values)
        fields.append(weights)
        regions.append(np.full(stop - start, -1))
    moved = np.cumsum(shift)
    rows = ~is_replaced[second.positions]
    read = second.positions[rows]
    weights = np.zeros((len(read), len(composed.experts)))
    if second.read_field is not None:
        weights[:, columns[id(second)]] = second.read_field[rows]
    numbers = np.array([*columns[id(second)], -1])  # the last one is for positions without an expert
    positions.append(read + moved[read])
    confidence.append(second.read_confidence[rows])
    fields.append(weights)
    regions.append(numbers[second.read_regions[rows]])
    joined = np.concatenate(positions)
    order = np.argsort(joined, kind="stable")
    return replace(
        composed,
        gaps=join_gaps(composed, groups, first, second, moved),
        positions=joined[order],
        read_confidence=np.concatenate(confidence)[order],
        read_field=np.concatenate(fields)[order],
        read_regions=np.concatenate(regions)[order],
    )


def join_gaps(
    composed: Restoration, groups: Sequence[Group], first: Restoration, second: Restoration, moved: Ints
) -> tuple[Gap, ...]:
    """Return the gaps of the second result, and those of the first one that it did not restore.

    Args:
        composed: The result, with its edits.
        groups: The groups of edits.
        first: The first result.
        second: The second result.
        moved: Shift of each position of the second result.
    """
    gaps = list[Gap]()
    first_starts = {edit.span: begin for edit, (begin, _) in zip(first.edits, first.ranges, strict=True)}
    for group, (start, _) in zip(groups, composed.ranges, strict=True):
        for gap in second.gaps if group.second else ():
            if group.at[0] <= gap.span[0] and gap.span[1] <= group.at[1]:
                shift = group.span[0] - group.at[0]
                span = (gap.span[0] + shift, gap.span[1] + shift)
                gaps.append(
                    replace(gap, span=span, at=(gap.at[0] + int(moved[gap.at[0]]), gap.at[1] + int(moved[gap.at[0]])))
                )
        for gap in first.gaps if not group.second else ():
            if group.span[0] <= gap.span[0] and gap.span[1] <= group.span[1]:
                shift = start - first_starts[group.span]
                gaps.append(replace(gap, at=(gap.at[0] + shift, gap.at[1] + shift)))
    return tuple(gaps)
