"""Changes of a corrected text: summary, list, undo, and pictures of their lines."""

import base64
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from conservator.decoders.edits import Change
from conservator.results.config import RESULTS

if TYPE_CHECKING:
    from conservator.pages import Picture


@dataclass(frozen=True)
class ChangeSummary:
    """Counts of the changes of a text.

    Attributes:
        characters: Number of characters of the observed text.
        changed: Number of characters that were replaced, deleted or inserted.
        changes: Number of changes.
        confident: Number of changes with a probability of at least 0.9.
        expected_accuracy: Expected share of correct changes, their mean probability; None without changes.
    """

    characters: int
    changed: int
    changes: int
    confident: int
    expected_accuracy: float | None


def summarize_changes(observed: str, changes: Sequence[Change]) -> ChangeSummary:
    """Count the changes of an observed text."""
    return ChangeSummary(
        len(observed),
        sum(max(len(change.seen), len(change.text)) for change in changes),
        len(changes),
        sum(change.probability >= RESULTS.min_confident for change in changes),
        sum(change.probability for change in changes) / len(changes) if changes else None,
    )


def undo_changes(text: str, changes: Sequence[Change]) -> str:
    """Return the observed text, given the corrected text and its changes."""
    parts, observed_end, text_end = [], 0, 0
    for change in changes:
        parts += [text[text_end : text_end + change.start - observed_end], change.seen]
        text_end += change.start - observed_end + len(change.text)
        observed_end = change.stop
    return "".join([*parts, text[text_end:]])


def list_changes(observed: str, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the changes as plain values.

    Each change has ``at`` (its half-open range of characters of the observed text), ``line`` (counted from 1),
    ``observed`` and ``text`` (before and after the change), ``probability``, and ``log_odds`` over the observed text
    in nats (None if the search pruned the observed text).
    """
    line_ends = [position for position, character in enumerate(observed) if character == "\n"]
    return [
        {
            "at": [change.start, change.stop],
            "line": bisect_right(line_ends, change.start - 1) + 1,
            "observed": change.seen,
            "text": change.text,
            "probability": round(change.probability, 4),
            "log_odds": round(change.log_odds, 4) if math.isfinite(change.log_odds) else None,
        }
        for change in changes
    ]


class ChangesByByte:
    """The changes of a text, indexed by the bytes of its UTF-8."""

    def __init__(self, observed: str, changes: Sequence[Change]) -> None:
        """Index the changes of an observed text."""
        self.observed = observed.encode()
        offsets = list(accumulate((len(character.encode()) for character in observed), initial=0))
        self.starts = [offsets[change.start] for change in changes]
        self.stops = [offsets[change.stop] for change in changes]

    def within(self, start: int, stop: int) -> dict[str, Any]:
        """Return the observed text of a range of bytes, and the half-open range of the changes in it."""
        first = bisect_right(self.starts, start - 1)
        last = bisect_right(self.stops, stop)
        return {"observed": self.observed[start:stop].decode(), "changes": [first, max(first, last)]}


def picture_record(pictures: "Sequence[Picture]", changes: Sequence[Change]) -> dict[str, Any]:
    """Return pictures of lines as plain values; an empty record without pictures.

    Each picture has ``image`` (a data URI) and ``boxes``: index of a change in the line -> the box around its words,
    ``[left, top, right, bottom]`` as fractions of the picture.
    """
    if not pictures:
        return {}
    indices = {(change.start, change.stop): index for index, change in enumerate(changes)}
    return {
        "pictures": [
            {
                "image": "data:image/png;base64," + base64.b64encode(picture.image).decode(),
                "boxes": {
                    str(indices[span]): [round(edge, 4) for edge in box]
                    for span, box in picture.boxes.items()
                    if span in indices
                },
            }
            for picture in pictures
        ]
    }
