"""What a reader chose: only its surroundings are restored again, and the rest of a record is kept."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from conservator.documents import FixedText
from conservator.errors import ConservatorError
from conservator.results.record import Record
from conservator.results.restoration import find_encoding

NEAR = 256  # bytes: so far from a choice, what is lost is restored again

Range = tuple[int, int]


class Place(NamedTuple):
    """A lost place of a record: the pieces that stand for the same bytes of the damaged document.

    Attributes:
        pieces: of the record.
        origin: the half-open range of bytes of the damaged document.
        at: the half-open range of positions.
    """

    pieces: tuple[Record, ...]
    origin: Range
    at: Range

    @property
    def text(self) -> str:
        """Its text, or the best guess where it was left open."""
        return "".join(piece["guess"] for piece in self.pieces)

    @property
    def chosen(self) -> bool:
        """Whether its text was given."""
        return "chosen" in self.pieces[0]


class Renewal(NamedTuple):
    """What is restored again, and what is kept.

    Attributes:
        fixed: the text of every place that is not restored again: of choices, and of what is far from those that
            changed.
        kept: the places of the old record that stay as they were.
        cuts: the ranges of positions of the old record that are replaced, in order; one of ``kept`` is between two.
    """

    fixed: tuple[FixedText, ...]
    kept: tuple[Place, ...]
    cuts: tuple[Range, ...]


def plan_renewal(record: Record, choices: Sequence[FixedText]) -> Renewal:
    """What has to be restored again if these are all choices now, and ``record`` says what was before."""
    places = list_places(record)
    wanted = {(start, stop): text for start, stop, text in choices}
    were = {place.origin: place.text for place in places if place.chosen}
    altered = Ranges(one for one in wanted.keys() | were.keys() if wanted.get(one) != were.get(one))
    changed = [place for place in places if altered.meet(place.origin)]
    lost = Ranges(place.origin for place in places)
    for one in altered.ranges:
        if not lost.meet(one):
            raise ConservatorError(f"nothing was lost at the bytes {one[0]} to {one[1]} of the document")
    around = Ranges((place.at[0] - NEAR, place.at[1] + NEAR) for place in changed)
    evidence_radius = [around.meet(place.at) for place in places]
    kept = tuple(place for place, renewed in zip(places, evidence_radius, strict=True) if not renewed)
    taken = Ranges(place.origin for place in kept)
    fixed = [(*place.origin, place.text) for place in kept]
    fixed += [one for one in choices if not taken.meet((one[0], one[1]))]
    cuts: list[Range] = []
    for number, place in enumerate(places):
        if evidence_radius[number] and number and evidence_radius[number - 1]:
            cuts[-1] = (cuts[-1][0], place.at[1])
        elif evidence_radius[number]:
            cuts.append(place.at)
    return Renewal(tuple(sorted(fixed)), kept, tuple(cuts))


def renew(record: Record, found: Record, renewal: Renewal) -> Record:
    """The record with what was restored again, in ``found``; all else stays as it was."""
    fixed = {place.origin: place for place in list_places(found) if place.chosen}
    anchors = [(place.at[0], fixed[place.origin].at[0] - place.at[0]) for place in renewal.kept]
    length, longer = record["summary"]["bytes"], found["summary"]["bytes"] - record["summary"]["bytes"]
    names = [one["name"] for one in record["references"]]
    names += [one["name"] for one in found["references"] if one["name"] not in names]
    numbers = [names.index(one["name"]) for one in found["references"]]
    fills = {place.origin: place.pieces[0]["fills"] for place in list_places(record)}
    pieces: list[Record] = []
    parts: list[tuple[Range, Range, bool]] = []  # of the old record, of the new one, whether it was restored again
    done = shift = 0
    for start, stop in [*renewal.cuts, (length, length)]:
        parts.append(((done, start), (done + shift, start + shift), False))
        later = bisect_left(anchors, (stop,))
        after = anchors[later][1] if later < len(anchors) else longer
        parts.append(((start, stop), (start + shift, stop + after), True))
        done, shift = stop, after
    for old, new, again in parts:
        if again:
            pieces += [_adopted(piece, numbers, fills) for piece in _between(found["pieces"], *new)]
        else:
            by = new[0] - old[0]
            pieces += [
                {**piece, "at": [edge + by for edge in piece["at"]]} for piece in _between(record["pieces"], *old)
            ]
    as_it_was = any(not place.chosen for place in renewal.kept)
    unit, restored = record["unit"], [piece["guess"] for piece in pieces if "origin" in piece and "chosen" not in piece]
    counts = [_remembered(pieces, number, unit) for number in range(len(names))]
    return {
        **record,
        "out_of_time": found["out_of_time"] or (record.get("out_of_time") if as_it_was else None),
        "lost_by": find_encoding("".join(restored), record["lost"]) if unit == "character" else None,
        "references": [{"name": name, "remembered": count} for name, count in zip(names, counts, strict=True)],
        "summary": summarise(pieces, found["summary"]["bytes"], unit),
        "cost": {name: round(value + found["cost"][name], 4) for name, value in record["cost"].items()},
        "field": _curves(record["field"], found["field"], parts),
        "pieces": pieces,
    }


def list_places(record: Record) -> list[Place]:
    """The lost places of a record, in order."""
    places: list[Place] = []
    for piece in record["pieces"]:
        if "origin" not in piece:
            continue
        origin, at = (piece["origin"][0], piece["origin"][1]), (piece["at"][0], piece["at"][1])
        last = places[-1] if places else None
        if last is not None and origin[0] < last.origin[1] and "chosen" not in piece:
            stop = max(last.origin[1], origin[1])
            places[-1] = Place((*last.pieces, piece), (last.origin[0], stop), (last.at[0], at[1]))
        else:
            places.append(Place((piece,), origin, at))
    return places


def summarise(pieces: Sequence[Record], length: int, unit: str = "byte") -> Record:
    """The summary of a record with these pieces and ``length`` bytes; it counts what a mark stands for: ``unit``."""
    places = list_places({"pieces": pieces})
    lost = [piece for piece in pieces if "origin" in piece]
    filled = [piece["tally"] for piece in lost if not piece["open"]]
    restored = sum(tally[0] for tally in filled)
    number = sum(piece["tally"][0] for piece in lost)
    return {
        "bytes": length,
        "lost": number,
        "places": sum(not place.chosen for place in places),
        "restored": restored,
        "left_open": number - restored,
        "expected_accuracy": round(sum(tally[2] for tally in filled) / restored, 4) if restored else None,
        "sure": sum(tally[1] for tally in filled),
        "remembered": _remembered(pieces, None, unit),
        "chosen": sum(place.chosen for place in places),
    }


class Ranges:
    """Half-open ranges, those that overlap made one.

    Attributes:
        ranges: in order, and apart.
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        """Sort and unite the ranges."""
        self.ranges: list[Range] = []
        for start, stop in sorted(ranges):
            if self.ranges and start < self.ranges[-1][1]:
                self.ranges[-1] = (self.ranges[-1][0], max(stop, self.ranges[-1][1]))
            else:
                self.ranges.append((start, stop))

    def meet(self, one: Range) -> bool:
        """Whether any of the ranges has something in common with another one."""
        before = bisect_left(self.ranges, (one[1],)) - 1  # the last that begins before its end
        return before >= 0 and self.ranges[before][1] > one[0]


def _between(pieces: Sequence[Record], start: int, stop: int) -> Iterator[Record]:
    """The pieces between two positions; visible text is cut there."""
    for piece in pieces:
        first, last = max(start, piece["at"][0]), min(stop, piece["at"][1])
        if first >= last:
            continue
        if [first, last] != list(piece["at"]):
            data = piece["text"].encode()[first - piece["at"][0] : last - piece["at"][0]]
            piece = {**piece, "at": [first, last], "text": data.decode()}
        yield piece


def _adopted(piece: Record, numbers: Sequence[int], fills: dict[Range, list[Record]]) -> Record:
    """A piece of another record: its references are renumbered, and a choice keeps what it was chosen from."""
    if "origin" not in piece:
        return piece
    sources = [one and [None if one[0] is None else numbers[one[0]], one[1]] for one in piece["from"]]
    if "chosen" not in piece:
        return {**piece, "from": sources}
    origin = (piece["origin"][0], piece["origin"][1])
    return {**piece, "from": sources, "fills": fills.get(origin, [])}


def _remembered(pieces: Sequence[Record], number: int | None, unit: str) -> int:
    """How many bytes or characters were remembered from a reference; None counts those from all and the document."""
    found = 0
    for piece in pieces:
        if "origin" in piece and not piece["open"]:
            for character, source in zip(piece["guess"], piece["from"], strict=True):
                if source is not None and (number is None or source[0] == number):
                    found += len(character.encode()) if unit == "byte" else 1
    return found


def _curves(old: Record, new: Record, parts: Sequence[tuple[Range, Range, bool]]) -> Record:
    """The curves of two records, each over the parts that come from it."""
    taken: list[tuple[Record, int]] = []
    for first, last in pairwise(new["edges"]):
        middle = (first + last) / 2
        (start, _), (begin, _), again = next(part for part in reversed(parts) if part[1][0] <= middle)
        place = middle if again else start + middle - begin
        source = new if again else old
        number = bisect_right(source["edges"], place) - 1
        taken.append((source, min(max(number, 0), len(source["lost"]) - 1)))
    return {
        "edges": new["edges"],
        "weights": [
            [source["weights"][expert][place] for source, place in taken] for expert in range(len(new["weights"]))
        ],
        "lost": [source["lost"][place] for source, place in taken],
        "remembered": [source["remembered"][place] for source, place in taken] if new["remembered"] else [],
    }
