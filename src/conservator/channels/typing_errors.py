"""Typing and spelling errors: the probability of an observed word, given the clean word and that it has an error.

An error is a path of edits from the clean word v to the observed word y:

    p(y | v) = max over paths of  second^(k - 1) prod over the k edits of  p(kind) w(kind, position) / n  q(letters)

n is the length of v, w the relative weight of a position in the word, and q the probability of the letters:

    kind        letters
    substitute  q(o | c): fitted letter pairs, smoothed with keyboard neighbours, lost accents and all other letters
    insert      q(o): fitted letters and keyboard neighbours of the letters beside o
    double      q(c): relative rate of the letter that is typed twice
    drop        q(c): relative rate of the letter that is dropped
    undouble    1: one of two equal letters is dropped
    transpose   q(c1 c2): relative rate of the pair that is transposed
    group       q(o | c): fitted strings of two letters for one or two others, such as f for ph

The parameters in ``typing_errors.json`` are fitted by ``conservator.alignment.fit_typing``.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf, log
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "typing_errors.json"
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")  # a word of any language
KINDS = ("substitute", "insert", "double", "drop", "undouble", "transpose", "group")
POSITIONS = ("first", "second", "middle", "last")  # position of an edit in the clean word
LETTERS = 30  # letters: of an alphabet, for letters without fitted probabilities [untuned]
SMOOTHING = 10.0  # counts: Dirichlet strength of the smoothing of fitted letter pairs [untuned]
NEAR_SHARE = 0.6  # probability: of a keyboard neighbour, for letters without fitted probabilities [untuned]
ACCENT_SHARE = 0.7  # probability: a substitution of an accented letter loses or changes the accent [untuned]
ADDED_ACCENT_SHARE = 0.1  # probability: a substitution of a letter adds an accent [untuned]
MIN_PROB = 1e-6  # probability: lower bound of the letters of an edit [numerical]
DRAWS = 20  # draws: until an error differs from the clean word [numerical]
# Rows of keyboards, each shifted by half a key against the row above.
KEYBOARDS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    ("йцукенгшщзхї", "фівапролджє", "ячсмитьбю"),
    ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
    ("קראטוןםפ", "שדגכעיחלךף", "זסבהנמצתץ"),
    ("ضصثقفغعهخحجد", "شسيبلاتنمكط", "ئءؤرلاىةوزظ"),
)


@dataclass(frozen=True)
class TypingErrors:
    """Parameters of the errors; counts are those of the pairs of words that they were fitted to.

    Attributes:
        kinds: Kind of an edit -> its probability.
        positions: Kind -> relative weight of each of POSITIONS.
        second: Probability of a further error in a word with an error, relative to none.
        joined: Probability that an error joins a word with the next one.
        split: Probability that an error splits a word.
        substituted: Clean letter -> observed letter -> count.
        inserted: Letter -> count.
        doubled: Letter -> relative rate.
        dropped: Letter -> relative rate.
        transposed: Pair of letters -> relative rate.
        groups: Clean string -> observed string -> probability, relative to all groups.
    """

    kinds: Mapping[str, float]
    positions: Mapping[str, tuple[float, ...]]
    second: float
    joined: float
    split: float
    substituted: Mapping[str, Mapping[str, float]]
    inserted: Mapping[str, float]
    doubled: Mapping[str, float]
    dropped: Mapping[str, float]
    transposed: Mapping[str, float]
    groups: Mapping[str, Mapping[str, float]]

    def edits(self, clean: str, start: int, observed: str, begin: int) -> Iterator[tuple[int, int, str, float]]:
        """Yield the edits at a position: clean letters, observed letters, kind, and probability.

        Args:
            clean: The clean word.
            start: Position in the clean word.
            observed: The observed word.
            begin: Position in the observed word.
        """
        before, letter = clean[start - 1 : start], clean[start : start + 1]
        seen, pair = observed[begin : begin + 1], clean[start : start + 2]
        if letter and seen and letter != seen:
            yield 1, 1, "substitute", self.substitution(letter, seen)
        if seen and (seen in (before, letter)):
            yield 0, 1, "double", self.doubled.get(seen, 1.0)
        elif seen:
            yield 0, 1, "insert", self.insertion(before, letter, seen)
        if letter and letter in (before, clean[start + 1 : start + 2]):
            yield 1, 0, "undouble", 1.0
        elif letter:
            yield 1, 0, "drop", self.dropped.get(letter, 1.0)
        if len(pair) == 2 and pair[0] != pair[1] and observed[begin : begin + 2] == pair[::-1]:
            yield 2, 2, "transpose", self.transposed.get(pair, 1.0)
        for size in (1, 2):
            for text, prob in self.groups.get(clean[start : start + size], {}).items():
                if len(clean) >= start + size and observed.startswith(text, begin):
                    yield size, len(text), "group", prob

    def edit_log_prob(self, clean: str, start: int, kind: str, letters: float) -> float:
        """Return the log-probability of an edit at a position of the clean word."""
        weight = self.positions[kind][position_class(start, len(clean))]
        return log(self.kinds[kind] * weight / len(clean) * max(letters, MIN_PROB))

    def path(self, clean: str, observed: str) -> tuple[float, list[tuple[int, int, int, int, str]]]:
        """Return the log-probability of the most probable path, and its edits.

        An edit is its position in both words, the number of its letters in both, and its kind.
        """
        further = log(self.second)
        scores = {(0, 0): -further}
        sources: dict[tuple[int, int], tuple[int, int, int, int, str]] = {}
        stop = (len(clean), len(observed))
        for start in range(len(clean) + 1):
            for begin in range(len(observed) + 1):
                score = scores.get((start, begin), -inf)
                if score == -inf or abs(start - begin) > 3:
                    continue
                if start < stop[0] and begin < stop[1] and clean[start] == observed[begin]:
                    _update(scores, sources, (start, begin, 1, 1, ""), score)
                for size, width, kind, letters in self.edits(clean, start, observed, begin):
                    value = score + further + self.edit_log_prob(clean, start, kind, letters)
                    _update(scores, sources, (start, begin, size, width, kind), value)
        edits, node = list[tuple[int, int, int, int, str]](), stop
        while node in sources:
            edit = sources[node]
            node = edit[:2]
            if edit[4]:
                edits.append(edit)
        return scores.get(stop, -inf), edits[::-1]

    def log_prob(self, clean: str, observed: str) -> float:
        """Return log p(observed | clean, an error)."""
        return self.path(clean, observed)[0]

    def substitution(self, clean: str, observed: str) -> float:
        """Return q(observed | clean) of a substituted letter."""
        near = neighbours(clean)
        share = NEAR_SHARE * (observed in near) / max(1, len(near)) + (1 - NEAR_SHARE) / LETTERS
        if base(clean) == base(observed):
            share = ACCENT_SHARE if base(clean) != clean else ADDED_ACCENT_SHARE
        counts = self.substituted.get(clean, {})
        return (counts.get(observed, 0.0) + SMOOTHING * share) / (sum(counts.values()) + SMOOTHING)

    def insertion(self, before: str, after: str, observed: str) -> float:
        """Return q(observed) of a letter that is inserted between two letters, which may be empty."""
        near = neighbours(before) | neighbours(after)
        share = NEAR_SHARE * (observed in near) / max(1, len(near)) + (1 - NEAR_SHARE) / LETTERS
        total = sum(self.inserted.values())
        return 0.5 * share + 0.5 * self.inserted.get(observed, 0.0) / total if observed in self.inserted else share

    @classmethod
    def read(cls, path: Path = FILE) -> "TypingErrors":
        """Read fitted parameters."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def corrupt(self, clean: str, generator: np.random.Generator) -> str:
        """Draw an observed word for a clean word: one error, or several."""
        observed = self.draw_error(clean, generator)
        while generator.random() < self.second / (1 + self.second):
            observed = self.draw_error(observed, generator)
        return match_case(observed, clean)

    def draw_error(self, clean: str, generator: np.random.Generator) -> str:
        """Draw an observed word with one error."""
        kinds = np.array([self.kinds[kind] for kind in KINDS])
        for _ in range(DRAWS):
            kind = KINDS[int(generator.choice(len(KINDS), p=kinds / kinds.sum()))]
            positions = np.array(
                [self.positions[kind][position_class(start, len(clean))] for start in range(len(clean))]
            )
            start = int(generator.choice(len(clean), p=positions / positions.sum()))
            edits = self.possible_edits(clean.lower(), start, kind)
            if edits:
                probs = np.array([prob for _, _, prob in edits])
                size, text, _ = edits[int(generator.choice(len(edits), p=probs / probs.sum()))]
                if generator.random() < min(1.0, float(probs.sum())) or kind in ("substitute", "insert"):
                    return clean[:start] + text + clean[start + size :]
        return clean

    def possible_edits(self, clean: str, start: int, kind: str) -> list[tuple[int, str, float]]:
        """Return the edits of a kind at a position: number of clean letters, observed letters, and probability."""
        letter, pair = clean[start], clean[start : start + 2]
        letters = {*self.substituted.get(letter, ()), *neighbours(letter)}
        if kind == "substitute":
            return [(1, text, self.substitution(letter, text)) for text in sorted(letters - {letter})]
        if kind == "insert":
            before = clean[start - 1 : start]
            near = neighbours(before) | neighbours(letter)
            return [(0, text, self.insertion(before, letter, text)) for text in sorted(near - {before, letter})]
        if kind == "double":
            return [(0, letter, self.doubled.get(letter, 1.0))]
        is_double = letter == clean[start + 1 : start + 2]
        if kind == "drop":
            return [] if is_double or len(clean) < 3 else [(1, "", self.dropped.get(letter, 1.0))]
        if kind == "undouble":
            return [(1, "", 1.0)] if is_double else []
        if kind == "transpose":
            is_pair = len(pair) == 2 and not is_double
            return [(2, pair[::-1], self.transposed.get(pair, 1.0))] if is_pair else []
        return [
            (size, text, prob)
            for size in (1, 2)
            if len(clean) >= start + size
            for text, prob in self.groups.get(clean[start : start + size], {}).items()
        ]


def _update(
    scores: dict[tuple[int, int], float],
    sources: dict[tuple[int, int], tuple[int, int, int, int, str]],
    edit: tuple[int, int, int, int, str],
    value: float,
) -> None:
    """Keep the better path to the end of an edit."""
    target = (edit[0] + edit[2], edit[1] + edit[3])
    if value > scores.get(target, -inf):
        scores[target], sources[target] = value, edit


def position_class(start: int, length: int) -> int:
    """Return the index in POSITIONS of a position in a word."""
    return 3 if start >= length - 1 else min(start, 2)


@cache
def neighbours(letter: str) -> frozenset[str]:
    """Return the letters beside a letter on any keyboard."""
    near: set[str] = set()
    for rows in KEYBOARDS:
        keys = {key: (x + y / 2, y) for y, row in enumerate(rows) for x, key in enumerate(row)}
        if letter in keys:
            column, line = keys[letter]
            near |= {key for key, (x, y) in keys.items() if abs(x - column) + abs(y - line) / 2 <= 1 and key != letter}
    return frozenset(near)


@cache
def base(letter: str) -> str:
    """Return a letter without accents."""
    return unicodedata.normalize("NFD", letter)[:1]


def match_case(word: str, pattern: str) -> str:
    """Return a word with the capitalisation of another one: capitals only, a capital at the start, or none."""
    if pattern.isupper() and len(pattern) > 1:
        return word.upper()
    if pattern[:1].isupper():
        return word[:1].upper() + word[1:].lower() if pattern[1:].islower() else word[:1].upper() + word[1:]
    return word


@cache
def load_typing_errors() -> TypingErrors:
    """Return the shipped parameters. The result is cached for the process."""
    return TypingErrors.read()


def corrupt_typing(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Make typing errors; ``rate`` is the expected share of words with an error."""
    errors, parts, done = load_typing_errors(), list[str](), 0
    for match in WORD.finditer(clean):
        if match.start() < done or len(match[0]) < 2 or generator.random() >= rate:
            continue
        start, stop = match.span()
        space = generator.random()
        parts.append(clean[done:start])
        done = stop
        if space < errors.joined and re.match(r" [^\W\d_]", clean[stop : stop + 2]):
            parts.append(match[0])
            done = stop + 1
        elif space > 1 - errors.split:
            middle = int(generator.integers(1, len(match[0])))
            parts.append(f"{match[0][:middle]} {match[0][middle:]}")
        else:
            parts.append(errors.corrupt(match[0], generator))
    return "".join([*parts, clean[done:]])
