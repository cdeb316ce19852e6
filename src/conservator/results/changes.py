"""The changes of a text that could be wrong anywhere: in a few numbers, in a list, and with pictures of their lines."""

import base64
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from conservator.decoders.edits import Change

if TYPE_CHECKING:
    from conservator.pages import Picture

SURE = 0.9  # the probability from which a change is called sure


@dataclass(frozen=True)
class ChangeSummary:
    """Changes in a few numbers.

    Attributes:
        characters: how many characters the text had.
        changed: how many of them were replaced or dropped, or added.
        changes: in how many changes.
        confident: how many changes have a probability of at least 0.9.
        expected_accuracy: the expected share of the changes that are right: their mean probability; None if there are
            none.
    """

    characters: int
    changed: int
    changes: int
    confident: int
    expected_accuracy: float | None


def sum_changes(seen: str, changes: Sequence[Change]) -> ChangeSummary:
    """The changes of a text in a few numbers."""
    return ChangeSummary(
        len(seen),
        sum(max(len(one.seen), len(one.text)) for one in changes),
        len(changes),
        sum(one.probability >= SURE for one in changes),
        sum(one.probability for one in changes) / len(changes) if changes else None,
    )


def undo_changes(text: str, changes: Sequence[Change]) -> str:
    """The text as it was before changes."""
    parts, done, at = [], 0, 0  # done in what was seen, at in the text
    for change in changes:
        parts += [text[at : at + change.start - done], change.seen]
        at += change.start - done + len(change.text)
        done = change.stop
    return "".join([*parts, text[at:]])


def list_changes(seen: str, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """The changes as plain values.

    Each has ``at`` (its half-open range of characters of the text as it was ``seen``), ``line`` (counted from 1),
    ``seen`` and ``text`` (what stood there and stands there now), ``probability``, and ``log_odds`` in nats over the text
    as it was (None if that was so unlikely that it was given up).
    """
    ends = [place for place, character in enumerate(seen) if character == "\n"]
    return [
        {
            "at": [one.start, one.stop],
            "line": bisect_right(ends, one.start - 1) + 1,
            "seen": one.seen,
            "text": one.text,
            "probability": round(one.probability, 4),
            "gain": round(one.log_odds, 4) if math.isfinite(one.log_odds) else None,
        }
        for one in changes
    ]


class ChangesByByte:
    """The changes of a text by the bytes of its UTF-8."""

    def __init__(self, seen: str, changes: Sequence[Change]) -> None:
        """Take the text before the changes, and the changes."""
        self.seen = seen.encode()
        places = list(accumulate((len(character.encode()) for character in seen), initial=0))
        self.starts = [places[one.start] for one in changes]
        self.stops = [places[one.stop] for one in changes]

    def within(self, start: int, stop: int) -> dict[str, Any]:
        """What was seen in a range of bytes, and the half-open range of the changes in it."""
        first = bisect_right(self.starts, start - 1)
        last = bisect_right(self.stops, stop)
        return {"seen": self.seen[start:stop].decode(), "changes": [first, max(first, last)]}


def picture_record(pictures: "Sequence[Picture]", changes: Sequence[Change]) -> dict[str, Any]:
    """Pictures of lines as plain values; nothing if there are none.

    Each has ``image`` (a data URI) and ``spots``: the number of each change in the line -> the box around its words,
    ``[left, top, right, bottom]`` as shares of the picture.
    """
    if not pictures:
        return {}
    numbers = {(one.start, one.stop): number for number, one in enumerate(changes)}
    return {
        "pictures": [
            {
                "image": "data:image/png;base64," + base64.b64encode(one.image).decode(),
                "spots": {
                    str(numbers[stretch]): [round(share, 4) for share in box]
                    for stretch, box in one.boxes.items()
                    if stretch in numbers
                },
            }
            for one in pictures
        ]
    }
