"""How a corrected text falls onto the words, and a corrected word onto its pieces."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

# How many words may become how many, beside one that becomes one. A word that becomes none is one too many.
STEPS = ((1, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1))
LARGEST = 10_000  # pairs of words, or of characters of two words, that are compared one by one
TOKEN = re.compile(r"\S+")


def spread(pieces: Sequence[str], text: str) -> list[str]:
    """Part ``text`` into as many pieces as there are, so that together they are ``text`` and each is like its own.

    Characters that stay remain in their piece, characters that were changed take the place of the old ones, and what is
    new joins the piece before it.
    """
    old = "".join(pieces)
    if len(old) * len(text) > LARGEST * 100 or not old:
        return [text, *[""] * (len(pieces) - 1)]
    owner = [index for index, piece in enumerate(pieces) for _ in piece]
    made = [""] * len(pieces)
    for _, first, last, begin, end in SequenceMatcher(None, old, text, autojunk=False).get_opcodes():
        for at in range(begin, end):
            place = min(first + at - begin, last - 1) if last > first else max(0, first - 1)
            made[owner[place]] += text[at]
    return made


def match_words(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, str]]:
    """Which words became which: ``(start, stop, text)`` for each stretch of ``old`` that is not as it was.

    The sum of the edit distances of all stretches is the least that steps of STEPS allow.
    """
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    if first == len(old) - last and first < len(new) - last:  # words are new: they need one to stand beside
        first, last = (first - 1, last) if first else (first, last - 1)
    left, right = old[first : len(old) - last], new[first : len(new) - last]
    if not left:
        return []
    steps = _best_steps(left, right) or [(len(left), len(right))]
    made, at, to = [], 0, 0
    for taken, given in steps:
        text = " ".join(right[to : to + given])
        if text != " ".join(left[at : at + taken]):
            made.append((first + at, first + at + taken, text))
        at, to = at + taken, to + given
    return made


def _best_steps(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]] | None:
    """The steps from ``old`` to ``new`` with the least edits; None if there are none, or too many to compare."""
    if len(old) * len(new) > LARGEST:
        return None
    best: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {(0, 0): (0, (0, 0))}
    for at in range(len(old) + 1):
        for to in range(len(new) + 1):
            for step in STEPS:
                before = best.get((at - step[0], to - step[1]))
                if before is None:
                    continue
                cost = before[0] + distance(" ".join(old[at - step[0] : at]), " ".join(new[to - step[1] : to]))
                if (at, to) not in best or cost < best[at, to][0]:
                    best[at, to] = (cost, step)
    place, steps = (len(old), len(new)), []
    if place not in best:
        return None
    while place != (0, 0):
        step = best[place][1]
        steps.append(step)
        place = (place[0] - step[0], place[1] - step[1])
    return steps[::-1]


def distance(old: str, new: str) -> int:
    """How many characters must be changed, added or dropped (Levenshtein); the longer length if both are long."""
    if old == new:
        return 0
    if len(old) * len(new) > LARGEST:
        return max(len(old), len(new))
    row = list(range(len(new) + 1))
    for index, one in enumerate(old, 1):
        corner, row[0] = row[0], index
        for place, other in enumerate(new, 1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (one != other))
    return row[-1]


def retell(text: str, words: Sequence[str], changes: Sequence[tuple[int, int, str]]) -> str | None:
    """A text that repeats the words, with changes of them; None if it is not those words.

    Args:
        text: the words, with any blanks between them.
        words: the words before the changes.
        changes: ``(start, stop, new)`` of words, in order.
    """
    tokens = list(TOKEN.finditer(text))
    if [token[0] for token in tokens] != [part for word in words for part in word.split()]:
        return None
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word.split()))
    made, at = [], 0
    for start, stop, new in changes:
        begin, end = tokens[starts[start]].start(), tokens[starts[stop] - 1].end()
        made += [text[at:begin], new]
        at = end
    return "".join([*made, text[at:]])
