"""Usage: how often words, their neighbours and their spellings stand in texts.

Texts are bytes of UTF-8. A word is a run of letters, digits and bytes outside ASCII, with apostrophes inside; every
other character but a blank is a token of its own, and so is the end of a line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies import BYTES

GONE = 0xFE  # stands for a byte that is not seen; no UTF-8 has it
WORD = re.compile(rb"[0-9A-Za-z\x80-\xfe]+(?:'[0-9A-Za-z\x80-\xfe]+)*|[^\s]|\n")
BITS = 21  # of the number of a token
UNSEEN = (1 << BITS) - 1  # the number of no token; there are fewer than this
SPELLINGS = ((-3, -2, -1, 1, 2, 3), (-2, -1, 1, 2), (-1, 1))  # what is seen around a letter, the most telling first
EDGE = max(map(max, SPELLINGS))
REACH = 2  # bytes: an apostrophe beside a byte joins words or not, whatever that byte is

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


class Counts(NamedTuple):
    """How often each of some keys (n,), ascending, was seen (n,)."""

    keys: Ints
    times: Floats

    @classmethod
    def of(cls, keys: Ints, times: Floats | None = None) -> "Counts":
        """Count keys, each once or so many times."""
        found, where = np.unique(keys, return_inverse=True)
        return cls(found, np.bincount(where, times, len(found)).astype(np.float64))

    def __call__(self, keys: Ints) -> Floats:
        """(n,) how often each of ``keys`` was seen."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.times[place], 0.0)


class Tables(NamedTuple):
    """The counts of tokens, of pairs and of triples of neighbours."""

    singles: Counts
    pairs: Counts
    triples: Counts


class Tokens(NamedTuple):
    """The tokens of a text: the number of each (n,), -1 if it has none; where each begins and ends (n,)."""

    numbers: Ints
    begins: Ints
    ends: Ints

    def tables(self, gone: Ints | None = None) -> Tables:
        """Count tokens and neighbours: all, or those in or near which something is gone.

        Args:
            gone: (L + 1,) how many bytes of the text are gone before each place. Whatever stood there, tokens that are
                more than REACH bytes away are the same.
        """
        found = []
        for order, keys in enumerate(self.keys):
            begins, ends = self.begins[: len(keys)], self.ends[order:]
            used = keys >= 0
            if gone is not None:
                last = len(gone) - 1
                used &= gone[(ends + REACH).clip(max=last)] > gone[(begins - REACH).clip(min=0)]
            found.append(Counts.of(keys[used]))
        return Tables(*found)

    @property
    def keys(self) -> tuple[Ints, Ints, Ints]:
        """The keys of tokens, pairs and triples, in their order; -1 if one of them has no number."""
        numbers = self.numbers
        pairs = pair(numbers[:-1], numbers[1:])
        triples = pair(pairs[:-1], numbers[2:])
        known = numbers >= 0
        both = known[:-1] & known[1:]
        return numbers, np.where(both, pairs, -1), np.where(both[:-1] & known[2:], triples, -1)


def pair(first: Ints, second: Ints) -> Ints:
    """The keys of pairs of tokens; from pairs and tokens, the keys of triples."""
    return (first << BITS) | second


@dataclass(frozen=True)
class Usage:
    """What is known of the words of texts.

    Attributes:
        numbers: token -> its number.
        tables: how often tokens and neighbours were seen.
        separators: (2, 2, V) how often each byte stood between words: with a letter before and after it or without.
        size: how many tokens the texts have.
    """

    numbers: dict[bytes, int]
    tables: Tables
    separators: Floats
    size: int

    @cached_property
    def words(self) -> "Dictionary":
        """The words by their length."""
        return Dictionary.of(self.numbers)

    @cached_property
    def spelling(self) -> "Spelling":
        """How words are spelt."""
        return Spelling.of(list(self.numbers))


def count_usage(texts: Iterable[bytes]) -> Usage:
    """Count the words of texts."""
    numbers: dict[bytes, int] = {}
    separators = np.zeros((2, 2, BYTES.size))
    parts: list[Ints] = []
    for text in texts:
        parts.append(cut(text, numbers, new=numbers).numbers)
        parts.append(np.array([-1]))  # no pair goes from one text into the next
        separators += count_separators(text)
    found = np.concatenate([*parts, np.zeros(0, dtype=np.int64)])
    tables = Tokens(found, found, found).tables()
    return Usage(numbers, tables, separators, int(tables.singles.times.sum()))


def cut(text: bytes, numbers: Mapping[bytes, int], new: dict[bytes, int] | None = None) -> Tokens:
    """Cut a text into tokens; those without a number get one in ``new``, unless a byte of them is gone."""
    found, begins, ends = [], [], []
    gone = bytes([GONE])
    for match in WORD.finditer(text):
        token = match[0]
        number = numbers.get(token, -1)
        if number < 0 and new is not None and gone not in token:
            known = len(numbers) if new is numbers else len(numbers) + len(new)
            number = new.setdefault(token, known if known < UNSEEN else -1)
        found.append(number)
        begins.append(match.start())
        ends.append(match.end())
    return Tokens(*(np.array(one, dtype=np.int64) for one in (found, begins, ends)))


def count_separators(text: bytes) -> Floats:
    """(2, 2, V) how often each byte that is in no word has a letter before it (first axis) and after it."""
    data = np.frombuffer(text, dtype=np.uint8)
    letter = is_letter(data)
    before, after = np.pad(letter, (1, 0))[:-1], np.pad(letter, (0, 1))[1:]
    kinds = (before * 2 + after) * BYTES.size + data.astype(np.int64)
    return np.bincount(kinds[~letter], minlength=4 * BYTES.size).reshape(2, 2, BYTES.size).astype(np.float64)


def is_letter(data: Bytes) -> NDArray[np.bool_]:
    """Which bytes may stand in a word."""
    table = np.array([bool(re.match(rb"[0-9A-Za-z\x80-\xfe]", bytes([one]))) for one in range(BYTES.size)])
    return table[data]


class Dictionary:
    """Words by their length, to find those that fit a pattern."""

    def __init__(self, by_length: Mapping[int, tuple[Bytes, Ints]]) -> None:
        """Take length -> the bytes (n, length) of words and their numbers (n,)."""
        self.by_length = by_length

    @classmethod
    def of(cls, numbers: Mapping[bytes, int]) -> "Dictionary":
        """The dictionary of words with their numbers."""
        found: dict[int, list[tuple[bytes, int]]] = {}
        for word, number in numbers.items():
            if number >= 0:
                found.setdefault(len(word), []).append((word, number))
        return cls(
            {
                length: (
                    np.frombuffer(b"".join(word for word, _ in known), dtype=np.uint8).reshape(-1, length),
                    np.array([number for _, number in known]),
                )
                for length, known in found.items()
            }
        )

    def like(self, pattern: Bytes) -> tuple[Bytes, Ints]:
        """The words that are ``pattern`` (l,) but for what is gone: their bytes (n, l) and numbers (n,)."""
        letters, numbers = self.by_length.get(len(pattern), (np.zeros((0, len(pattern)), np.uint8), np.zeros(0, int)))
        fits = np.arange(len(letters))
        for place in np.flatnonzero(pattern != GONE).tolist():
            fits = fits[letters[fits, place] == pattern[place]]
        return letters[fits], numbers[fits]


class Spelling:
    """Which letters stand in words by what is around them; every word counts once."""

    def __init__(self, around: Sequence[Counts]) -> None:
        """Take the counts of each of ``SPELLINGS``, by what is around a letter and the letter."""
        self.around = around

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "Spelling":
        """The spelling of words."""
        blank = b" " * EDGE
        data = np.frombuffer(blank + blank.join(words) + blank, dtype=np.uint8).astype(np.int64)
        inner = np.flatnonzero(data != ord(" "))
        return cls([Counts.of(around(data, inner, shape) * BYTES.size + data[inner]) for shape in SPELLINGS])

    def law(self, pattern: Bytes, place: int, firm: float) -> Floats:
        """(V,) the law of the letter at a place of a pattern; ``firm`` sightings count as much as smaller contexts."""
        edged = np.pad(pattern, EDGE, constant_values=ord(" ")).astype(np.int64)
        law = np.full(BYTES.size, 1 / BYTES.size)
        for shape, counts in zip(reversed(SPELLINGS), reversed(self.around), strict=True):
            where = place + EDGE + np.array(shape)
            if (edged[where] == GONE).any():
                break
            keys = around(edged, np.array([place + EDGE]), shape) * BYTES.size + np.arange(BYTES.size)
            seen = counts(keys)
            law = (seen + firm * law) / (seen.sum() + firm)
        return law


def around(data: Ints, places: Ints, shape: Sequence[int]) -> Ints:
    """(n,) the bytes around each of some places, as one number."""
    key = np.zeros(len(places), dtype=np.int64)
    for offset in shape:
        key = key * BYTES.size + data[places + offset]
    return key
