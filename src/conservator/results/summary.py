"""The summary of a result: its counts, for the command line, the record, the web page and batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Counts of a restoration, in units of ``Restoration.unit``: bytes, characters or corrections.

    Attributes:
        bytes: Number of bytes of the document.
        lost: Number of units that were lost or changed.
        spans: Number of runs of such units.
        restored: Number of them that were filled.
        unfilled: Number of them that are unfilled, because of low confidence or of the time limit.
        expected_accuracy: Expected share of correct units among those filled, their mean confidence; None if none was.
        confident: Number of them that were filled with a confidence of at least 0.9.
        provenance: Number of filled bytes or characters that the memory copied.
        fixed: Number of spans with fixed text.
        weights: Mean weight of each expert at lost or changed units; 0 without any.
    """

    bytes: int
    lost: int
    spans: int
    restored: int
    unfilled: int
    expected_accuracy: float | None
    confident: int
    provenance: int
    fixed: int
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Counts:
    """Counts of a part of a document.

    Attributes:
        lost: Number of lost or changed units.
        confident: Number of them with a confidence of at least 0.9.
        confidence_sum: Sum of their confidences.
    """

    lost: int
    confident: int
    confidence_sum: float


class CountedPart(NamedTuple):
    """A part of a document for ``summarize``: its counts, whether it is unfilled, and the weights of the experts."""

    counts: Counts
    unfilled: bool
    weights: Sequence[float]


def summarize(
    parts: Iterable[CountedPart], experts: int, *, length: int, spans: int, provenance: int, fixed: int
) -> Summary:
    """Return the summary of a document with these parts.

    Args:
        parts: The parts that were lost or changed.
        experts: Number of experts.
        length: Number of bytes of the document.
        spans: Number of runs of lost or changed units.
        provenance: Number of units that the memory copied.
        fixed: Number of spans with fixed text.
    """
    lost = restored = confident = 0
    confidence_sum, weights = 0.0, np.zeros(experts)
    for part in parts:
        lost += part.counts.lost
        weights += part.counts.lost * np.array(part.weights)
        if not part.unfilled:
            restored += part.counts.lost
            confident += part.counts.confident
            confidence_sum += part.counts.confidence_sum
    return Summary(
        bytes=length,
        lost=lost,
        spans=spans,
        restored=restored,
        unfilled=lost - restored,
        expected_accuracy=confidence_sum / restored if restored else None,
        confident=confident,
        provenance=provenance,
        fixed=fixed,
        weights=tuple((weights / max(1, lost)).tolist()),
    )
