"""Fit the parameters of typing errors to pairs of misspelt and correct words.

Each pair is aligned by its most probable path of edits. The parameters of the next iteration are the relative
frequencies in these paths, smoothed with the ``strength`` of expected counts:

    relative rate of a letter = (count + strength) / (expected count + strength)

The expected count of a letter in a kind of edits is that of edits at random positions of the clean words.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from conservator.channels.typing_errors import KINDS, POSITIONS, TypingErrors, position_class

Pair = tuple[str, str]  # misspelt word, correct word
STRENGTH = 5.0  # counts: smoothing of relative rates
ITERATIONS = 3  # iterations of alignments and counts
MAX_EDITS = 2  # edits: pairs with more are ignored
MIN_GROUP = 8  # count: minimum occurrences of a group of letters
GROUP_SHARE = 0.05  # probability of a group at the start
SPLIT_SHARE = 0.02  # probability: an error splits a word; lists of words have none


def fit_typing(pairs: Sequence[Pair]) -> TypingErrors:
    """Return the parameters of pairs of lower-case words; a correct text of two words is an error of the blank."""
    joined = sum(" " in clean and clean.replace(" ", "") == observed for observed, clean in pairs)
    words = [pair for pair in pairs if " " not in pair[1] and pair[0] != pair[1]]
    groups = find_groups(words)
    uniform = {kind: tuple(1.0 for _ in POSITIONS) for kind in KINDS}
    errors = TypingErrors(dict.fromkeys(KINDS, 1 / len(KINDS)), uniform, 0.05, 0.0, 0.0, {}, {}, {}, {}, {}, groups)
    for _ in range(ITERATIONS):
        errors = refit(words, errors, joined / max(1, len(pairs)))
    return errors


def find_groups(pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """Return the strings of one or two letters that are replaced by one or two others, and differ in all letters."""
    counts: Counter[Pair] = Counter()
    for observed, clean in pairs:
        start = next((i for i, (a, b) in enumerate(zip(clean, observed, strict=False)) if a != b), 0)
        clean_rest, observed_rest = clean[start:], observed[start:]
        while clean_rest and observed_rest and clean_rest[-1] == observed_rest[-1]:
            clean_rest, observed_rest = clean_rest[:-1], observed_rest[:-1]
        sizes = (len(clean_rest), len(observed_rest))
        if sizes in ((1, 2), (2, 1), (2, 2)) and clean_rest != observed_rest[::-1]:
            counts[clean_rest, observed_rest] += 1
    frequent = {edit: count for edit, count in counts.items() if count >= MIN_GROUP}
    groups: dict[str, dict[str, float]] = {}
    for (clean, observed), count in sorted(frequent.items()):
        groups.setdefault(clean, {})[observed] = count / sum(frequent.values())
    return groups


def refit(pairs: Sequence[Pair], errors: TypingErrors, joined: float) -> TypingErrors:
    """Align the pairs, and return the relative frequencies."""
    kinds, sizes = Counter[str](), Counter[int]()
    positions = {kind: Counter[int]() for kind in KINDS}
    expected_positions = defaultdict[int, float](float)
    letters, two_letters = defaultdict[str, float](float), defaultdict[str, float](float)
    counts = {kind: Counter[Pair]() for kind in KINDS}
    for observed, clean in pairs:
        _, edits = errors.path(clean, observed)
        if not 1 <= len(edits) <= MAX_EDITS:
            continue
        sizes[len(edits)] += 1
        for start in range(len(clean)):
            expected_positions[position_class(start, len(clean))] += 1 / len(clean)
            letters[clean[start]] += 1 / len(clean)
            two_letters[clean[start : start + 2]] += 1 / len(clean)
        for start, begin, size, width, kind in edits:
            kinds[kind] += 1
            positions[kind][position_class(start, len(clean))] += 1
            counts[kind][clean[start : start + size], observed[begin : begin + width]] += 1
    total, words = sum(kinds.values()), sum(sizes.values())
    space = joined + SPLIT_SHARE

    def relative(counted: Mapping[str, float], expected: Mapping[str, float], minimum: float = 0) -> dict[str, float]:
        scale = sum(counted.values()) / sum(expected.values())
        return {
            key: round((counted.get(key, 0) + STRENGTH) / (expected[key] * scale + STRENGTH), 3)
            for key in sorted(expected)
            if expected[key] * scale >= minimum or counted.get(key, 0) >= minimum
        }

    substituted: dict[str, dict[str, float]] = {}
    for (clean, observed), count in sorted(counts["substitute"].items()):
        if count >= 2:
            substituted.setdefault(clean, {})[observed] = count
    groups: dict[str, dict[str, float]] = {}
    for (clean, observed), count in sorted(counts["group"].items()):
        # Probability at a position, where the clean string must occur: as for the relative rates of letters.
        rate = count / max(1.0, sum(counts["group"].values())) / (clean_share(pairs, clean) + 1e-3)
        groups.setdefault(clean, {})[observed] = round(rate, 3)
    return TypingErrors(
        {kind: round((kinds[kind] + 1) / (total + len(KINDS)) * (1 - space), 5) for kind in KINDS},
        {
            kind: tuple(
                round(
                    (positions[kind][position] + STRENGTH)
                    / (kinds[kind] * expected_positions[position] / sum(expected_positions.values()) + STRENGTH),
                    3,
                )
                for position in range(len(POSITIONS))
            )
            for kind in KINDS
        },
        round((sizes[2] + 1) / (words - sizes[2] + 1), 4),
        round(joined, 4),
        SPLIT_SHARE,
        substituted,
        {text: count for (_, text), count in sorted(counts["insert"].items()) if count >= 2},
        relative({text: count for (_, text), count in counts["double"].items()}, letters),
        relative({text: count for (text, _), count in counts["drop"].items()}, letters),
        relative({text: count for (text, _), count in counts["transpose"].items()}, two_letters, 3),
        groups,
    )


def clean_share(pairs: Sequence[Pair], text: str) -> float:
    """Return the mean number of occurrences of a text per position of the clean words."""
    return sum(clean.count(text) / len(clean) for _, clean in pairs) / len(pairs)
