"""Counts of words, word n-grams and letters in texts.

Texts are UTF-8 bytes. A word is a run of letters, digits and non-ASCII bytes, with apostrophes inside. Every other
character except white space is a token, and so is the end of a line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats, Ints
from conservator.vocabularies import BYTES

HIDDEN_BYTE = 0xFE  # byte: stands for a hidden byte; it does not occur in UTF-8 [definition]
WORD = re.compile(rb"[0-9A-Za-z\x80-\xfe]+(?:'[0-9A-Za-z\x80-\xfe]+)*|[^\s]|\n")
ID_BITS = 21  # bits: size of a token id in a key [definition]
UNSEEN_ID = (1 << ID_BITS) - 1  # id of no token; all token ids are smaller
# characters: offsets of the letters around a letter, from the most to the least specific context [untuned]
LETTER_CONTEXTS = ((-3, -2, -1, 1, 2, 3), (-2, -1, 1, 2), (-1, 1))
MAX_OFFSET = max(map(max, LETTER_CONTEXTS))
MAX_CACHED = 2048  # results: that a dictionary or a spelling model keeps; about 4 MB each [safety limit]
# bytes: a byte can change the tokens within this distance, because an apostrophe beside it joins words [definition]
TOKEN_CHANGE_RADIUS = 2

Bytes = NDArray[np.uint8]


class CountTable(NamedTuple):
    """Counts (n,) of ascending keys (n,)."""

    keys: Ints
    counts: Floats

    @classmethod
    def of(cls, keys: Ints) -> "CountTable":
        """Count the occurrences of keys."""
        unique, inverse = np.unique(keys, return_inverse=True)
        return cls(unique, np.bincount(inverse, None, len(unique)).astype(np.float64))

    def __call__(self, keys: Ints) -> Floats:
        """Return the count of each key (n,), 0 if it does not occur."""
        if not len(self.keys):
            return np.zeros(len(keys))
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[index] == keys, self.counts[index], 0.0)

    def at(self, key: int) -> float:
        """Return the count of one key, 0 if it does not occur."""
        if not len(self.keys):
            return 0.0
        index = self.keys.searchsorted(key)
        return float(self.counts[index]) if index < len(self.keys) and self.keys[index] == key else 0.0

    def as_dict(self) -> dict[int, float]:
        """Return key -> count, which is faster than ``at`` for a small table."""
        return dict(zip(self.keys.tolist(), self.counts.tolist(), strict=True))


class NgramTables(NamedTuple):
    """Counts of tokens, of pairs and of triples of consecutive tokens."""

    unigrams: CountTable
    bigrams: CountTable
    trigrams: CountTable


class Tokens(NamedTuple):
    """Tokens of a text: the id of each (n,), -1 if it has none, its first byte (n,) and its end (n,)."""

    ids: Ints
    begins: Ints
    ends: Ints

    def tables(self, hidden_before: Ints | None = None) -> NgramTables:
        """Count n-grams: all, or those that hidden bytes may change.

        Args:
            hidden_before: (L + 1,) number of hidden bytes before each position. Tokens further than
                TOKEN_CHANGE_RADIUS from a hidden byte do not depend on it.
        """
        tables = []
        for order, keys in enumerate(self.keys):
            begins, ends = self.begins[: len(keys)], self.ends[order:]
            counted = keys >= 0
            if hidden_before is not None:
                last = len(hidden_before) - 1
                upto_end = hidden_before[(ends + TOKEN_CHANGE_RADIUS).clip(max=last)]
                counted &= upto_end > hidden_before[(begins - TOKEN_CHANGE_RADIUS).clip(min=0)]
            tables.append(CountTable.of(keys[counted]))
        return NgramTables(*tables)

    @property
    def keys(self) -> tuple[Ints, Ints, Ints]:
        """Keys of tokens, pairs and triples in text order; -1 if one of the tokens has no id."""
        ids = self.ids
        pairs = pair(ids[:-1], ids[1:])
        triples = pair(pairs[:-1], ids[2:])
        known = ids >= 0
        both = known[:-1] & known[1:]
        return ids, np.where(both, pairs, -1), np.where(both[:-1] & known[2:], triples, -1)


def pair(first: Ints, second: Ints) -> Ints:
    """Return the keys of token pairs, or the keys of triples from keys of pairs and tokens."""
    return (first << ID_BITS) | second


@dataclass(frozen=True)
class WordCounts:
    """Counts of the words of texts.

    Attributes:
        ids: token -> its id.
        tables: n-gram counts.
        separators: (2, 2, V) counts of each byte between words: without or with a letter before it, and after it.
        total: number of tokens of the texts.
    """

    ids: dict[bytes, int]
    tables: NgramTables
    separators: Floats
    total: int

    @cached_property
    def words(self) -> "Dictionary":
        """Words by length."""
        return Dictionary(self.ids)

    @cached_property
    def spelling(self) -> "SpellingModel":
        """Letter model of the words."""
        return SpellingModel.of(list(self.ids))


def count_word_ngrams(texts: Iterable[bytes]) -> WordCounts:
    """Count the words of texts. No n-gram extends over the end of a text."""
    ids: dict[bytes, int] = {}
    separators = np.zeros((2, 2, BYTES.size))
    parts: list[Ints] = []
    for text in texts:
        parts.append(tokenize(text, ids, new_ids=ids).ids)
        parts.append(np.array([-1]))
        separators += count_separators(np.frombuffer(text, dtype=np.uint8))
    all_ids = np.concatenate([*parts, np.zeros(0, dtype=np.int64)])
    tables = Tokens(all_ids, all_ids, all_ids).tables()
    return WordCounts(ids, tables, separators, int(tables.unigrams.counts.sum()))


def tokenize(text: bytes, ids: Mapping[bytes, int], new_ids: dict[bytes, int] | None = None) -> Tokens:
    """Tokenize a text. A token without an id and without hidden bytes gets one in ``new_ids``."""
    token_ids, begins, ends = [], [], []
    hidden = bytes([HIDDEN_BYTE])
    for match in WORD.finditer(text):
        token = match[0]
        token_id = ids.get(token, -1)
        if token_id < 0 and new_ids is not None and hidden not in token:
            next_id = len(ids) if new_ids is ids else len(ids) + len(new_ids)
            token_id = new_ids.setdefault(token, next_id if next_id < UNSEEN_ID else -1)
        token_ids.append(token_id)
        begins.append(match.start())
        ends.append(match.end())
    return Tokens(*(np.array(values, dtype=np.int64) for values in (token_ids, begins, ends)))


def count_separators(data: Bytes) -> Floats:
    """Count the bytes outside of words: (2, 2, V), by whether a letter is before (first axis) and after each byte.

    Bytes beside hidden bytes are not counted.
    """
    letter = is_letter(data)
    before, after = np.pad(letter, (1, 0))[:-1], np.pad(letter, (0, 1))[1:]
    keys = (before * 2 + after) * BYTES.size + data.astype(np.int64)
    is_hidden = data == HIDDEN_BYTE
    near_hidden = is_hidden | np.pad(is_hidden, (1, 0))[:-1] | np.pad(is_hidden, (0, 1))[1:]
    counts = np.bincount(keys[~letter & ~near_hidden], minlength=4 * BYTES.size)
    return counts.reshape(2, 2, BYTES.size).astype(np.float64)


def count_line_ends(data: Bytes) -> Floats:
    """Count the visible bytes outside of words before line ends that are not blank lines: (V,)."""
    last = data[:-1][(data[1:] == ord("\n")) & (data[:-1] != ord("\n")) & (data[:-1] != HIDDEN_BYTE)]
    return np.bincount(last[~is_letter(last)], minlength=BYTES.size).astype(np.float64)


def is_letter(data: Bytes) -> NDArray[np.bool_]:
    """Flag the bytes that may occur in a word."""
    table = np.array([bool(re.match(rb"[0-9A-Za-z\x80-\xfe]", bytes([byte]))) for byte in range(BYTES.size)])
    return table[data]


@dataclass(frozen=True)
class Matches:
    """The n words that agree with a pattern.

    Attributes:
        group: letters of all words of this length, a row for each offset.
        values: (n,) value of each word.
        index: the columns of the words in ``group``.
        masses: cached results of ``mass``.
    """

    group: Bytes
    values: Floats
    index: slice | Ints
    masses: dict[int, Floats] = field(default_factory=dict)

    def letters(self, offset: int) -> Bytes:
        """Return the byte of each word at an offset: (n,)."""
        return self.group[offset, self.index]

    def mass(self, offset: int) -> Floats:
        """Return the sum of the values for each byte at an offset: (V,). The result is cached."""
        if offset not in self.masses:
            self.masses[offset] = np.bincount(self.letters(offset), self.values, BYTES.size).astype(np.float64)
        return self.masses[offset]

    @cached_property
    def total(self) -> float:
        """The sum of the values."""
        return float(self.values.sum())

    def words(self) -> list[bytes]:
        """Return the words."""
        return [row.tobytes() for row in self.group[:, self.index].T]


class SortedWords:
    """Words of one length, sorted from the front or from the back."""

    def __init__(self, words: Mapping[bytes, float], *, backward: bool) -> None:
        """Sort the words."""
        step = -1 if backward else 1
        self.keys = sorted(word[::step] for word in words)
        length = len(self.keys[0])
        rows = np.frombuffer(b"".join(self.keys), dtype=np.uint8).reshape(-1, length)
        self.letters = np.ascontiguousarray(rows.T[::step])
        self.values = np.array([words[key[::step]] for key in self.keys], dtype=np.float64)

    def find(self, start: bytes, others: Sequence[tuple[int, int]]) -> Matches:
        """Return the words that begin (or end, reversed) with ``start``, and have the bytes ``others`` at offsets."""
        first, last = bisect_left(self.keys, start), bisect_left(self.keys, start + b"\xff")
        index: slice | Ints = slice(first, last)
        for offset, byte in others if first < last else ():
            equal = self.letters[offset, index] == byte
            index = first + np.flatnonzero(equal) if isinstance(index, slice) else index[equal]
        return Matches(self.letters, self.values[index], index)


class Dictionary:
    """Words by length, each with a value, for matching with patterns."""

    def __init__(self, words: Mapping[bytes, float]) -> None:
        """Group the words by length."""
        self._by_length: dict[int, dict[bytes, float]] = {}
        for word, value in words.items():
            self._by_length.setdefault(len(word), {})[word] = value
        self._sorted: dict[tuple[int, bool], SortedWords] = {}
        self._cached: dict[bytes, Matches | None] = {}

    def __bool__(self) -> bool:
        """Return whether there are words."""
        return bool(self._by_length)

    def match(self, pattern: bytes) -> Matches | None:
        """Return the words that agree with a pattern, which has HIDDEN_BYTE at its hidden bytes; None if none does."""
        if pattern not in self._cached:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[pattern] = self._match(pattern)
        return self._cached[pattern]

    def _match(self, pattern: bytes) -> Matches | None:
        """Return the words that agree with a pattern."""
        words = self._by_length.get(len(pattern))
        if words is None:
            return None
        hidden = bytes([HIDDEN_BYTE])
        first, last = pattern.index(hidden), pattern.rindex(hidden)
        prefix, suffix = pattern[:first], pattern[last + 1 :]
        backward = len(suffix) > len(prefix)
        offsets = [*range(first + 1, last), *(range(first) if backward else range(last + 1, len(pattern)))]
        others = [(offset, pattern[offset]) for offset in offsets if pattern[offset] != HIDDEN_BYTE]
        key = len(pattern), backward
        if key not in self._sorted:
            self._sorted[key] = SortedWords(words, backward=backward)
        matches = self._sorted[key].find(suffix[::-1] if backward else prefix, others)
        return matches if len(matches.values) else None


class SpellingModel:
    """Distribution of a letter in a word given the letters around it. Every word counts once."""

    def __init__(self, tables: Sequence[CountTable]) -> None:
        """Initialise from the counts of (context, letter) for each of LETTER_CONTEXTS."""
        self.tables = tables
        self._cached: dict[tuple[bytes, float], Floats] = {}

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "SpellingModel":
        """Count the letters of words."""
        padding = b" " * MAX_OFFSET
        data = np.frombuffer(padding + padding.join(words) + padding, dtype=np.uint8).astype(np.int64)
        letters = np.flatnonzero(data != ord(" "))
        return cls(
            [
                CountTable.of(context_keys(data, letters, offsets) * BYTES.size + data[letters])
                for offsets in LETTER_CONTEXTS
            ]
        )

    def distribution(self, pattern: bytes, position: int, strength: float) -> Floats:
        """Compute the distribution (V,) of the letter at a position of a pattern.

        ``strength`` is the Dirichlet strength of the backoff to a less specific context.
        """
        padding = b" " * MAX_OFFSET
        around = (padding + pattern + padding)[position : position + 2 * MAX_OFFSET + 1]
        probs = self._cached.get((around, strength))
        if probs is None:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            probs = self._cached[around, strength] = self._predict(around, strength)
        return probs

    def _predict(self, around: bytes, strength: float) -> Floats:
        """Compute the distribution (V,) of the letter in the middle of a pattern."""
        probs = np.full(BYTES.size, 1 / BYTES.size)
        for offsets, table in zip(reversed(LETTER_CONTEXTS), reversed(self.tables), strict=True):
            context = bytes([around[MAX_OFFSET + offset] for offset in offsets])
            if HIDDEN_BYTE in context:
                break
            key = int.from_bytes(context) * BYTES.size
            begin, end = table.keys.searchsorted((key, key + BYTES.size)).tolist()
            if begin == end:
                break
            counts = table.counts[begin:end]
            total = float(counts.sum()) + strength
            probs *= strength / total
            probs[table.keys[begin:end] - key] += counts / total
        return probs


def context_keys(data: Ints, positions: Ints, offsets: Sequence[int]) -> Ints:
    """Return the bytes at ``offsets`` from each position as one number (n,)."""
    keys = np.zeros(len(positions), dtype=np.int64)
    for offset in offsets:
        keys = keys * BYTES.size + data[positions + offset]
    return keys
