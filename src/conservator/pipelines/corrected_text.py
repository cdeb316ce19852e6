"""The result of correcting visible text: the edits, and the arrays of a ``Restoration``."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.document import Document
from conservator.experts import Cost
from conservator.results import Edit, Notice, Restoration


def byte_offsets(text: str, errors: str = "strict") -> list[int]:
    """Return the first byte of each character in UTF-8, and the end of the text."""
    return list(accumulate((len(character.encode(errors=errors)) for character in text), initial=0))


def build_correction(
    document: Document,
    edits: Sequence[Edit],
    channel: str,
    experts: tuple[str, ...],
    weights: Floats | None = None,
    *,
    cost: Cost,
    rate: float | None = None,
    notices: tuple[Notice, ...] = (),
    out_of_time: str | None = None,
    precision: Mapping[str, str] | None = None,
) -> Restoration:
    """Return the result of a correction.

    Args:
        document: The document.
        edits: The corrections, and fixed texts of the user; their spans do not overlap.
        channel: Name of the channel whose errors were corrected.
        experts: Names of the m models that chose the corrections.
        weights: (m,) mean weight of each; equal by default.
        cost: Cost of the correction.
        rate: Error rate, as a multiple of the channel's; None if the channel has no rate.
        notices: Statements about the result.
        out_of_time: Stage that the time limit interrupted; None if there was enough time.
        precision: Name of a pretrained expert -> the number format of its arithmetic.
    """
    ordered = sorted(edits, key=lambda edit: edit.span)
    weights = np.full(len(experts), 1 / max(1, len(experts))) if weights is None else weights
    length = len(document.data) + sum(len(edit.data) - edit.span[1] + edit.span[0] for edit in ordered)
    confidence = np.ones(length)
    regions: Ints = np.full(length, -1)
    shift = 0
    for edit in ordered:
        start = edit.span[0] + shift
        stop = start + len(edit.data)
        if not edit.is_fixed:
            confidence[start:stop], regions[start:stop] = edit.probability, int(np.argmax(weights))
        shift += len(edit.data) - edit.span[1] + edit.span[0]
    return Restoration(
        observed=document.data,
        edits=tuple(ordered),
        experts=experts,
        positions=np.arange(length),
        read_confidence=confidence,
        read_field=np.broadcast_to(np.asarray(weights, dtype=np.float64), (length, len(experts))),
        read_regions=regions,
        channels=(channel,),
        rate=rate,
        out_of_time=out_of_time,
        notices=notices,
        cost=cost,
        precision=precision or {},
        encoding=document.encoding,
    )
