"""The edits of a document with lost or overwritten bytes, made from the decoded text."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Ints
from conservator.decoders import Candidate
from conservator.documents import DamagedDocument
from conservator.experts import MemorySource
from conservator.results import Edit, Gap

NO_POSITIONS = np.empty(0, dtype=np.int64)
NO_CONFIDENCE = np.empty(0)


def make_edits(
    damaged: DamagedDocument,
    positions: Ints = NO_POSITIONS,
    tokens: Ints = NO_POSITIONS,
    confidence: NDArray[np.float64] = NO_CONFIDENCE,
    unfilled: Ints = NO_POSITIONS,
    alternatives: Sequence[tuple[Candidate, ...]] = (),
    provenance: Mapping[int, MemorySource] | None = None,
) -> tuple[Edit, ...]:
    """Return an edit for each run of lost or changed bytes, and for each fixed text, in order.

    Args:
        damaged: The damaged document.
        positions: (n,) positions that were read; all lost positions are among them.
        tokens: (n,) decoded bytes.
        confidence: (n,) their probabilities.
        unfilled: (k,) lost positions that are left unfilled.
        alternatives: Best candidates of each run; empty if they were not requested.
        provenance: Position -> the text and line that the memory copied its byte from.
    """
    edits = [
        Edit(
            (int(span[0]), int(span[1])),
            damaged.tokens[start : start + length].astype(np.uint8).tobytes(),
            1.0,
            is_fixed=True,
        )
        for start, length, span in zip(
            *(values[list(damaged.fixed)] for values in (damaged.positions, damaged.lengths, damaged.spans)),
            strict=True,
        )
    ]
    is_changed = damaged.tokens[positions] != tokens
    indices = np.flatnonzero(is_changed)
    first = np.flatnonzero(np.diff(positions[indices], prepend=-2) > 1)
    stops = np.append(first[1:], len(indices)) if len(first) else first
    placeholders = find_placeholders(damaged, unfilled)
    origins = damaged.origins(positions[indices])
    gap_of = damaged.gap_of(positions[indices])
    sources = provenance or {}
    for run, (start, stop) in enumerate(zip(first.tolist(), stops.tolist(), strict=True)):
        selected = indices[start:stop]
        begin = int(positions[selected[0]])
        spans = [(int(left), int(right)) for left, right in origins[start:stop].tolist()]
        gaps = np.unique(gap_of[start:stop])
        probability = float(confidence[selected].prod())
        if damaged.length_probability is not None:
            probability *= float(damaged.length_probability[gaps[gaps >= 0]].prod())
        inside = range(begin, begin + stop - start)
        if is_kept_mark(damaged, begin, tokens[selected]):
            continue
        edits.append(
            Edit(
                (spans[0][0], spans[-1][1]),
                tokens[selected].astype(np.uint8).tobytes(),
                probability,
                alternatives=alternatives[run] if alternatives else (),
                sources={position - begin: sources[position] for position in inside if position in sources},
                placeholders={
                    position - begin: placeholders[position] for position in inside if position in placeholders
                },
                byte_spans=tuple(spans) if len(spans) > 1 else (),
            )
        )
    return tuple(sorted(edits, key=lambda edit: edit.span))


def is_kept_mark(damaged: DamagedDocument, begin: int, tokens: Ints) -> bool:
    """Return whether decoded bytes are the marks themselves: the marks are undamaged text, such as question marks."""
    marker = int(damaged.marker_of(np.array([begin]))[0])
    is_mark = marker >= 0 and not damaged.is_gap[marker]
    return is_mark and tokens.astype(np.uint8).tobytes() == damaged.mark.encode() * len(tokens)


def find_placeholders(damaged: DamagedDocument, unfilled: Ints) -> dict[int, bytes]:
    """Return unfilled position -> the marker that is written there; nothing is written for its further positions."""
    placeholders, previous, previous_position = {}, -1, -2
    gap_texts = dict(zip(damaged.gaps.tolist(), damaged.gap_texts, strict=True))
    for position, marker in zip(unfilled.tolist(), damaged.marker_of(unfilled).tolist(), strict=True):
        is_further = marker >= 0 and marker == previous and position == previous_position + 1
        text = gap_texts.get(marker, damaged.mark)
        placeholders[position] = b"" if is_further else text.encode()
        previous, previous_position = marker, position
    return placeholders


def find_gaps(damaged: DamagedDocument) -> tuple[Gap, ...]:
    """Return the gaps of a document whose lengths are chosen."""
    if damaged.length_probability is None:
        return ()
    return tuple(
        Gap(
            (int(damaged.spans[gap, 0]), int(damaged.spans[gap, 1])),
            (int(damaged.positions[gap]), int(damaged.positions[gap] + damaged.lengths[gap])),
            float(probability),
        )
        for gap, probability in zip(damaged.gaps.tolist(), damaged.length_probability, strict=True)
    )
