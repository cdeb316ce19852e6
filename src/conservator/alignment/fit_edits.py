"""Fit an edit channel to pairs of what was seen and what is clean, by expectation maximisation over all alignments."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from conservator.channels.edits import LONGEST, Edit, EditChannel
from conservator.errors import ConservatorError
from conservator.experts.meter import Progress
from conservator.numerics import add_logs, compiled

OFF = 2  # characters: how far an alignment may be from one with the fewest edits
ROUNDS = 5
SEEN_TWICE = 3  # a longer edit must be seen so often in alignments with the fewest edits
TRUSTED = 0.5, 2.0  # expected sightings below which an edit of single characters, or a longer one, is left out
UNLIKELY = 1e-6
SHAPES = [shape for shape in product(range(LONGEST + 1), repeat=2) if shape != (0, 0)]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Pair = tuple[str, str]  # what was seen, what is clean


def log_likelihood(channel: EditChannel, seen: str, clean: str) -> float:
    """Log p_c(seen | clean), over all ways of reading one as the other."""
    steps = {(one, one): channel.stay(one) for one in set(clean)} | dict(channel.edits)
    numbers = {edit: number for number, edit in enumerate(steps)}
    every = [(i, j) for i in range(len(clean) + 1) for j in range(len(seen) + 1)]
    ways = find_ways(seen, clean, every, numbers)
    with np.errstate(divide="ignore"):
        return float(expect(*ways, np.log(list(steps.values())), np.zeros(len(steps))))


def fit_edits(pairs: Sequence[Pair], source: str = "", progress: Progress | None = None) -> EditChannel:
    """The channel under which what was seen is likeliest, given what is clean.

    Args:
        pairs: what was seen and what is clean, mostly lines.
        source: what they are, in words.
        progress: is told which share is done.
    """
    pairs = [(seen, clean) for seen, clean in pairs if seen and clean]
    if not pairs:
        raise ConservatorError("there is no pair of lines with text in both, to fit a channel to")
    paths = [closest_path(seen, clean) for seen, clean in pairs]
    numbers = {edit: number for number, edit in enumerate(candidates(pairs, paths))}
    ways = [
        find_ways(seen, clean, evidence_radius(path, seen, clean), numbers)
        for (seen, clean), path in zip(pairs, paths, strict=True)
    ]
    places = count_places([clean for _, clean in pairs], {clean for clean, _ in numbers})
    same = np.array([clean == seen for clean, seen in numbers])
    sizes = np.array([len(clean) + len(seen) for clean, seen in numbers])
    per_place = np.array([max(1, places[clean]) for clean, _ in numbers], dtype=np.float64)
    chances = np.where(same, 0.9, 0.001 / sizes)
    expected = np.zeros(len(numbers))
    for number in range(ROUNDS):
        expected = np.zeros(len(numbers))
        for one in ways:
            expect(*one, np.log(chances), expected)
        chances = np.maximum(expected / per_place, UNLIKELY * same + 1e-12)
        if progress is not None:
            progress("fitting", (number + 1) / ROUNDS)
    return as_channel(numbers, chances, expected, places, source)


def pair_lines(seen: Sequence[str], clean: Sequence[str]) -> list[Pair]:
    """Lines that stand for each other: those of the same number, or else the whole texts as one pair."""
    if len(seen) == len(clean):
        return list(zip(seen, clean, strict=True))
    return [("\n".join(seen), "\n".join(clean))]


def as_channel(
    numbers: Mapping[Edit, int], chances: Floats, expected: Floats, places: Mapping[str, int], source: str
) -> EditChannel:
    """The channel of edits that were seen often enough, the commonest first.

    One sighting of a longer edit counts as chance. A character that is never clean stays as often as others: that it is
    always wrong may be so in these pairs alone.
    """
    edits, stays = {}, {}
    for (clean, seen), number in sorted(numbers.items(), key=lambda one: (-expected[one[1]], one[0])):
        if clean == seen:
            if places[clean]:
                stays[clean] = min(1.0, float(chances[number]))
            continue
        short = max(len(clean), len(seen)) <= 1
        if expected[number] < TRUSTED[0 if short else 1] or "\n" in clean + seen:
            continue  # line ends are kept
        trusted = 1.0 if len(clean) <= 1 else (expected[number] - 1) / expected[number]
        edits[clean, seen] = min(1.0, float(chances[number] * trusted))
    total = sum(places[one] for one in stays)
    other = sum(stays[one] * places[one] for one in stays) / max(1, total)
    return EditChannel(edits, stays, other, source)


def closest_path(seen: str, clean: str) -> list[tuple[int, int]]:
    """The places (in clean, in seen) along an alignment with the fewest edits."""
    path = [(0, 0)]
    for step in Levenshtein.editops(clean, seen):
        i, j = path[-1]
        path += [(i + one, j + one) for one in range(1, step.src_pos - i + 1)]
        i, j = path[-1]
        path.append((i + (step.tag != "insert"), j + (step.tag != "delete")))
    i, j = path[-1]
    return path + [(i + one, j + one) for one in range(1, len(clean) - i + 1)]


def candidates(pairs: Iterable[Pair], paths: Iterable[Sequence[tuple[int, int]]]) -> list[Edit]:
    """The edits that may be made, and every character that stays as it is."""
    counts: Counter[Edit] = Counter()
    kept: dict[Edit, None] = {}
    for (seen, clean), path in zip(pairs, paths, strict=True):
        kept |= dict.fromkeys((one, one) for one in clean + seen)
        for first, (i, j) in enumerate(path):
            for k, m in path[first + 1 : first + 2 * LONGEST]:
                if k - i > LONGEST or m - j > LONGEST:
                    break
                before, after = clean[i:k], seen[j:m]
                if differ_at_ends(before, after):
                    counts[before, after] += 1
    often = {edit for edit, times in counts.items() if is_candidate(edit, times)}
    return [*kept, *(edit for edit in counts if edit in often)]


def is_candidate(edit: Edit, times: int) -> bool:
    """Whether an edit that stands so often in alignments with the fewest edits is one: if long, seldom by chance.

    What leaves nothing to be seen is dropped character by character: where a longer string was lost depends on the
    page, such as on bullets before lines, and it would be invented everywhere.
    """
    clean, seen = edit
    return max(len(clean), len(seen)) <= 1 or (times >= SEEN_TWICE and (seen != "" or len(clean) <= 1))


def differ_at_ends(clean: str, seen: str) -> bool:
    """Whether two strings differ in their first and in their last character; one may be empty."""
    return clean != seen and not (clean and seen and (clean[0] == seen[0] or clean[-1] == seen[-1]))


def evidence_radius(path: Iterable[tuple[int, int]], seen: str, clean: str) -> list[tuple[int, int]]:
    """The places within OFF of a path, in order."""
    found = {(i, j + off) for i, j in path for off in range(-OFF, OFF + 1) if 0 <= j + off <= len(seen)}
    return sorted(one for one in found if one[0] <= len(clean))


def find_ways(
    seen: str, clean: str, places: Sequence[tuple[int, int]], numbers: Mapping[Edit, int]
) -> tuple[int, Ints, Ints, Ints]:
    """The steps between places (in clean, in seen): how many places; where each starts and ends, which edit it is."""
    where = {place: number for number, place in enumerate(places)}
    found: list[tuple[int, int, int]] = []
    for (i, j), start in where.items():
        for size, width in SHAPES:
            stop = where.get((i + size, j + width))
            if stop is not None:
                edit = numbers.get((clean[i : i + size], seen[j : j + width]))
                if edit is not None:
                    found.append((start, stop, edit))
    steps = np.array(found, dtype=np.int64).reshape(-1, 3)
    return len(places), *np.ascontiguousarray(steps.T)


def count_places(texts: Iterable[str], wanted: set[str]) -> Counter[str]:
    """At how many places of texts each of some strings stands; the empty one stands before and after each character."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts[""] += len(text) + 1
        for size in range(1, LONGEST + 1):
            counts.update(text[start : start + size] for start in range(len(text) - size + 1))
    return Counter({one: counts[one] for one in wanted})


@compiled
def expect(places: int, starts: Ints, stops: Ints, edits: Ints, chances: Floats, expected: Floats) -> float:
    """Add the expected number of each edit to ``expected``; return the log-likelihood, -inf if there is no way.

    Steps are in the order of the places where they start; ``chances`` are logarithms.
    """
    ahead, behind = np.full(places, -np.inf), np.full(places, -np.inf)
    ahead[0] = 0.0
    behind[places - 1] = 0.0
    for step in range(len(starts)):
        ahead[stops[step]] = add_logs(ahead[stops[step]], ahead[starts[step]] + chances[edits[step]])
    total = float(ahead[places - 1])
    if total == -np.inf:
        return total
    for step in range(len(starts) - 1, -1, -1):
        behind[starts[step]] = add_logs(behind[starts[step]], behind[stops[step]] + chances[edits[step]])
    for step in range(len(starts)):
        expected[edits[step]] += np.exp(ahead[starts[step]] + chances[edits[step]] + behind[stops[step]] - total)
    return total
