"""The lattice of all ways to set the spaces of a text, and the rates of missing and inserted spaces.

A path through the lattice divides the runs of letters into words w and decides for every gap between two characters
whether the clean text has a space there (z = 1). With k = 0, 1, 2 for no, one or several observed spaces,

    score = sum over words of log p(w)  +  sum over gaps of log p(z | kinds of units) + log p(k | z)

Gaps inside a run have no prior of their own: the words decide. p(k | z) are inferred from the text by expectation
maximisation from several starts (few errors, no spaces, letter-spaced text).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.word_ngram.gaps import (
    BLANK,
    DASHES,
    LETTERS,
    NUMBER,
    UNSPACED,
    GapShares,
    Unit,
    split_units,
)
from conservator.experts.word_ngram.unseen import UnseenWords
from conservator.lattice import Lattice
from conservator.pipelines.visible_text.words import WordScores

MAX_WORD = 32  # characters: of a word; longer runs are divided [untuned]
MAX_CROSSED = 3  # gaps: with a space that a word joins, unless the text is letter-spaced [untuned]
MAX_KIND = 2  # number of observed spaces: several count as two [definition]
WORD_NATS = 1.0  # nats: cost of a word [untuned]
FLAT_SHARE = 0.01  # probability: an unseen word does not resemble listed words [untuned]
FLAT_NATS = 4.5  # nats per character: of such a word [untuned]
FUNCTION_LENGTH = 6  # characters: of a function word [untuned]
FUNCTION_PROB = 2e-3  # probability: more frequent words are function words [untuned]
FUNCTION_FACTOR = 0.1  # ratio: dashes without spaces before function words [untuned]
FUNCTION_BOTH = 0.2  # probability: of spaces on both sides before function words [untuned]
APOSTROPHES = "'\u2019"
POSSESSIVE_PROB = 0.02  # probability: of an English possessive of a word [untuned]
LETTER_WORD_PROB = 1e-3  # probability: more frequent single letters are words [untuned]
LETTER_FACTOR = 0.02  # ratio: probability of other single letters [untuned]
INNER_CAPITAL = 1e-3  # ratio: probability of an unseen word with a capital letter inside [untuned]
MIN_PROB = 1e-250  # probability: of an unseen word [numerical]
TINY = 1e-12  # probability: lower bound of a share [numerical]


@dataclass(frozen=True)
class Characters:
    """The characters of a text without the spaces that may be wrong.

    Attributes:
        text: (n,) the characters.
        positions: (n,) index of each in the original text.
        gaps: (n,) number of spaces before each, at most MAX_KIND.
        fixed: (n,) True where the spaces before a character do not change.
    """

    text: str
    positions: Ints
    gaps: Ints
    fixed: "np.ndarray[tuple[int], np.dtype[np.bool_]]"

    @classmethod
    def of(cls, text: str, protected: Sequence[tuple[int, int]] = (), *, keep_several: bool = False) -> "Characters":
        """Remove the spaces of a text.

        Args:
            text: The text.
            protected: Ranges of characters whose spaces are fixed.
            keep_several: Whether gaps of several spaces, and those after the mark of a list item, are fixed.
        """
        codes = np.array([character != " " for character in text], dtype=bool)
        positions = np.flatnonzero(codes)
        counts = np.diff(positions, prepend=-1) - 1
        is_protected = np.zeros(len(text) + 1, dtype=bool)
        for start, stop in protected:
            is_protected[start:stop] = True
        remaining = "".join(text[index] for index in positions)
        blank = np.array([character.isspace() for character in remaining], dtype=bool)
        fixed = blank | np.concatenate([[True], blank[:-1]])[: len(blank)]
        if keep_several:
            marks = [
                match.end() for match in re.finditer(r"^[ \t]*[^\w\s'\"(\u201c\u2018\u00ab\u201e]+", text, re.MULTILINE)
            ]
            fixed |= (counts > 1) | np.isin(positions - counts, marks)
        fixed |= is_protected[positions] | is_protected[np.concatenate([[0], positions[:-1]])[: len(positions)]]
        return cls(remaining, positions, np.minimum(counts, MAX_KIND), fixed)


class WordLogProbs:
    """Log-probabilities of the words of a text without spaces.

        p(w) = (1 - u) known probability + u ((1 - f) p(w | characters of listed words) + f exp(-a length))

    with f = ``FLAT_SHARE`` and a = ``FLAT_NATS``; u, the share of unseen words, is inferred.
    """

    def __init__(self, text: str, scores: WordScores, unseen: UnseenWords) -> None:
        """Score all strings of a text of up to MAX_WORD characters."""
        self.text, self.scores = text, scores
        self.unseen = np.exp(unseen.log_probs(text, MAX_WORD))
        self._cache: dict[str, tuple[float, float]] = {}

    def probs(self, start: int, stop: int) -> tuple[float, float]:
        """Return p of the characters from ``start`` to ``stop`` as a known word, and as an unseen word."""
        word = self.text[start:stop]
        if word not in self._cache:
            spelled = self.unseen[start, stop - start - 1] if stop - start <= MAX_WORD else 0.0
            spelled = (1 - FLAT_SHARE) * spelled + FLAT_SHARE * exp(-FLAT_NATS * (stop - start))
            known = self.scores.known_prob(word, excluded=1)
            if word.endswith(("'s", "\u2019s")):
                known = max(known, POSSESSIVE_PROB * self.scores.known_prob(word[:-2]))
            if word[1:] != word[1:].lower() and word != word.upper():
                spelled *= INNER_CAPITAL
            if len(word) == 1 and known < LETTER_WORD_PROB:
                known, spelled = LETTER_FACTOR * known, LETTER_FACTOR * spelled
            self._cache[word] = known, max(spelled, MIN_PROB)
        return self._cache[word]


@dataclass
class Arcs:
    """Arcs of the lattice. A character i has the nodes 2 i (its beginning) and 2 i + 1 (its end).

    Attributes:
        sources, targets, scores: Arcs and their log-scores without those of the observed spaces.
        inner: Observed kinds of the gaps that a word joins: the numbers of gaps of each kind.
        gaps: Gap that an arc decides, or -1; two for the gaps beside a dash.
        states: Whether the clean text has a space there.
        probs: Probabilities of a word as a known and as an unseen word; 0 of other arcs.
    """

    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    inner: list[tuple[int, int, int]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    states: list[tuple[int, int]] = field(default_factory=list)
    probs: list[tuple[float, float]] = field(default_factory=list)

    def add(
        self,
        source: int,
        target: int,
        score: float = 0.0,
        inner: tuple[int, int, int] = (0, 0, 0),
        gaps: tuple[int, int] = (-1, -1),
        states: tuple[int, int] = (0, 0),
        probs: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Add an arc."""
        self.sources.append(source)
        self.targets.append(target)
        self.scores.append(score)
        self.inner.append(inner)
        self.gaps.append(gaps)
        self.states.append(states)
        self.probs.append(probs)


@dataclass(frozen=True)
class SpaceLattice:
    """All ways to set the spaces of a text.

    Attributes:
        characters: The text without spaces.
        arcs: Arcs, sorted by source.
    """

    characters: Characters
    arcs: Arcs

    @cached_property
    def arrays(self) -> tuple[Ints, Ints, Floats, Ints, Ints, Ints]:
        """Arcs as arrays: sources (E,), targets (E,), scores (E,), inner (E, 3), gaps (E, 2), states (E, 2)."""
        arcs = self.arcs
        order = np.argsort(np.array(arcs.sources, dtype=np.int64), kind="stable")
        integers = [
            np.array(values, dtype=np.int64)[order]
            for values in (arcs.sources, arcs.targets, arcs.inner, arcs.gaps, arcs.states)
        ]
        return integers[0], integers[1], np.array(arcs.scores)[order], integers[2], integers[3], integers[4]

    @cached_property
    def probs(self) -> Floats:
        """(E, 2) probabilities of the arcs as known and as unseen words."""
        order = np.argsort(np.array(self.arcs.sources, dtype=np.int64), kind="stable")
        probs: Floats = np.array(self.arcs.probs)[order]
        return probs

    def with_rates(self, log_rates: Floats, unseen: float) -> Lattice:
        """Return the lattice.

        Args:
            log_rates: Log-probabilities (2, 3) of the observed kinds of a gap given z.
            unseen: Share of unseen words, u.
        """
        sources, targets, scores, inner, gaps, states = self.arrays
        total = scores + inner @ log_rates[0]
        is_word = self.probs[:, 1] > 0
        total[is_word] += np.log(self.probs[is_word] @ (1 - unseen, unseen)) - WORD_NATS
        kinds = self.characters.gaps
        for column in range(2):
            decided = gaps[:, column] >= 0
            total = total + np.where(decided, log_rates[states[:, column], kinds[gaps[:, column]]], 0.0)
        size = 2 * len(self.characters.text) + 1
        return Lattice(size, sources, targets, total, np.array([size - 1]))

    def space_probs(self, lattice: Lattice) -> Floats:
        """Return the posterior probability (n,) of a space before each character."""
        _, _, _, _, gaps, states = self.arrays
        posteriors, probs = np.exp(lattice.log_posteriors), np.zeros(len(self.characters.text))
        for column in range(2):
            decided = (gaps[:, column] >= 0) & (states[:, column] == 1)
            np.add.at(probs, gaps[decided, column], posteriors[decided])
        return np.clip(probs, 0.0, 1.0)

    def unseen_count(self, lattice: Lattice, unseen: float) -> tuple[float, float]:
        """Return the expected numbers of unseen words and of all words."""
        posteriors, is_word = np.exp(lattice.log_posteriors), self.probs[:, 1] > 0
        weights = self.probs[is_word] * (1 - unseen, unseen)
        shares = weights[:, 1] / weights.sum(axis=1)
        return float(posteriors[is_word] @ shares), float(posteriors[is_word].sum())

    def gap_counts(self, lattice: Lattice) -> Floats:
        """Return the expected number (2, 3) of gaps without and with a space, by their observed kind."""
        _, _, _, inner, gaps, states = self.arrays
        posteriors, counts = np.exp(lattice.log_posteriors), np.zeros((2, MAX_KIND + 1))
        counts[0] += posteriors @ inner
        for column in range(2):
            decided = gaps[:, column] >= 0
            at = states[decided, column], self.characters.gaps[gaps[decided, column]]
            np.add.at(counts, at, posteriors[decided])
        return counts

    @cached_property
    def decided(self) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """(n,) True at the gaps that the lattice decides."""
        _, _, _, _, gaps, _ = self.arrays
        flags = np.zeros(len(self.characters.text), dtype=bool)
        for column in range(2):
            flags[gaps[gaps[:, column] >= 0, column]] = True
        return flags


def build_lattice(characters: Characters, words: WordLogProbs, shares: GapShares, max_crossed: int) -> SpaceLattice:
    """Return the lattice of a text.

    Args:
        characters: The text.
        words: Log-probabilities of words.
        shares: Shares of gaps with a space.
        max_crossed: Number of observed spaces that a word may join.
    """
    arcs, units = Arcs(), split_units(characters.text)
    previous: Unit | None = None
    for index, unit in enumerate(units):
        following = units[index + 1] if index + 1 < len(units) else None
        if following is not None and is_dash(previous, unit, following, characters):
            add_dash(arcs, characters, unit, following, words, shares.dash(unit.kind))
            previous = None
            continue
        for piece in pieces(unit, characters):
            if previous is not None:
                add_gap(arcs, characters, previous, piece, shares)
            add_piece(arcs, characters, piece, words, max_crossed)
            previous = piece
    size = len(characters.text)
    arcs.add(2 * size - 1, 2 * size)
    return SpaceLattice(characters, arcs)


def pieces(unit: Unit, characters: Characters) -> Iterator[Unit]:
    """Yield the pieces of a run of letters between fixed gaps; other units are yielded whole."""
    if unit.kind != LETTERS:
        yield unit
        return
    start = unit.start
    for index in range(unit.start + 1, unit.stop):
        if characters.fixed[index]:
            yield Unit(LETTERS, start, index)
            start = index
    yield Unit(LETTERS, start, unit.stop)


def add_gap(arcs: Arcs, characters: Characters, left: Unit, right: Unit, shares: GapShares) -> None:
    """Add the arcs of the gap between two units."""
    at = right.start
    source, target = 2 * at - 1, 2 * at
    is_fixed = characters.fixed[at] or UNSPACED in (left.kind, right.kind) or BLANK in (left.kind, right.kind)
    if is_fixed:
        arcs.add(source, target)
        return
    space = shares.space(left.kind, right.kind)
    none = 1 - space
    if (left.kind, right.kind) == (NUMBER, LETTERS):
        none, space = shares.after_number
        for suffix, prob in shares.suffixes.items():
            stop = at + len(suffix)
            if stop <= right.stop and characters.text.startswith(suffix, at):
                inner = Counter(characters.gaps[at + 1 : stop].tolist())
                counts = (inner[0], inner[1], inner[2])
                arcs.add(source, 2 * stop - 1, log(prob), inner=counts, gaps=(at, -1), states=(0, 0))
    arcs.add(source, target, log(max(space, TINY)), gaps=(at, -1), states=(1, 0))
    arcs.add(source, target, log(max(none, TINY)), gaps=(at, -1), states=(0, 0))


def is_dash(left: Unit | None, dash: Unit, right: Unit, characters: Characters) -> bool:
    """Return whether a unit is a dash between words or numbers, whose gaps may change."""
    return (
        left is not None
        and dash.kind in DASHES
        and left.kind in (LETTERS, NUMBER)
        and right.kind in (LETTERS, NUMBER)
        and not characters.fixed[dash.start]
        and not characters.fixed[right.start]
    )


def add_dash(
    arcs: Arcs, characters: Characters, dash: Unit, right: Unit, words: WordLogProbs, shares: list[float]
) -> None:
    """Add the arcs of both gaps beside a dash and of the word after it.

    A dash without spaces joins words, so it is improbable before a function word.

    Args:
        arcs: The arcs.
        characters: The text.
        dash: The dash.
        right: The unit after it.
        words: Probabilities of words.
        shares: Probabilities of spaces beside the dash: none, right, left, both.
    """
    source, gaps = 2 * dash.start - 1, (dash.start, dash.stop)
    if right.kind != LETTERS:
        for number, share in enumerate(shares):
            arcs.add(source, 2 * dash.stop, log(max(share, TINY)), gaps=gaps, states=(number // 2, number % 2))
        return
    none, after, before, both = shares
    function_shares = [FUNCTION_FACTOR * none, after, before, max(both, FUNCTION_BOTH)]
    for stop, inner, probs in word_ends(characters, right, right.start, words, MAX_WORD):
        for number, share in enumerate(function_shares if probs[0] > FUNCTION_PROB else shares):
            states, score = (number // 2, number % 2), log(max(share, TINY))
            arcs.add(source, 2 * stop - 1, score, inner=inner, gaps=gaps, states=states, probs=probs)


def word_ends(
    characters: Characters, unit: Unit, start: int, words: WordLogProbs, max_crossed: int
) -> Iterator[tuple[int, tuple[int, int, int], tuple[float, float]]]:
    """Yield the words that start at a character of a run: end, inner gaps of each kind, and probabilities."""
    gaps, text, counts = characters.gaps, characters.text, [0, 0, 0]
    if text[start] in APOSTROPHES and start > unit.start:
        return
    starts_word = start == unit.start or gaps[start] > 0
    for stop in range(start + 1, unit.stop + 1):
        if stop > start + 1:
            counts[gaps[stop - 1]] += 1
        crossed, is_long = counts[1] + counts[2], stop - start > MAX_WORD
        if crossed > max_crossed or (is_long and (crossed or not starts_word)):
            return
        ends_word = stop == unit.stop or gaps[stop] > 0
        if (text[stop - 1] not in APOSTROPHES or stop == unit.stop) and (ends_word or not is_long):
            yield stop, (counts[0], counts[1], counts[2]), words.probs(start, stop)


def add_piece(arcs: Arcs, characters: Characters, unit: Unit, words: WordLogProbs, max_crossed: int) -> None:
    """Add the arcs of a unit: all words of a run of letters."""
    if unit.kind != LETTERS:
        arcs.add(2 * unit.start, 2 * unit.stop - 1)
        return
    for start in range(unit.start, unit.stop):
        for stop, inner, probs in word_ends(characters, unit, start, words, max_crossed):
            arcs.add(2 * start, 2 * stop - 1, inner=inner, probs=probs)
        if start + 1 < unit.stop:
            arcs.add(2 * start + 1, 2 * start + 2, gaps=(start + 1, -1), states=(1, 0))
