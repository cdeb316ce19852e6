"""Words of a list that are near a given word, the letter model of the list, and its endings.

A word is near another one if its optimal string alignment distance, which counts a transposition as one edit, is at
most 2. An edit changes the set of letters of a word by at most two letters, so the words whose sets differ by more than
2 letters per edit are excluded without computing a distance.

A word may be derived from another one of the list by another ending, as in house and houses. The rate of a change of
endings is the share of the words with the first ending for which the list has the word with the second ending, too.
The first part of a word is a prefix or a word before another word of the list, as in unlike and sunlight.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from conservator.arrays import Floats
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.experts.word_ngram.lists import load_word_list

SET_BITS = 31  # bits: of the set of the letters of a word, by their code points modulo 32 [definition]
LETTER_CHANGES = 2  # letters: by which an edit changes the set of the letters of a word at most [definition]
LETTER_ORDER = 6  # characters: length of the longest n-gram of the letter model [untuned]
SEPARATOR = "\n" * LETTER_ORDER  # so that no n-gram has letters of two words
MAX_ENDING = 3  # letters: of an ending that is replaced [untuned]
MIN_STEM = 3  # letters: before an ending [untuned]
MIN_REST = 4  # letters: of a word after a first part [untuned]
MIN_FIRST = 2  # letters: of a first part [untuned]
MIN_FIRST_WORDS = 3  # words: with a first part [untuned]
MAX_SAMPLE = 200  # words: an evenly spaced sample for the rate of a change of endings [untuned]
RATE_STRENGTH = 3.0  # counts: words without the change of endings that are added to the sample [untuned]
RARE = 1.2  # ratio: of the frequency of the rarest words to the lowest frequency [definition]
MAX_CACHED_LISTS = 8  # word lists: that are kept with their index; about 20 MB each [safety limit]


class NearWords:
    """Lower-case words, for the search of words near a given word."""

    def __init__(self, words: Iterable[str]) -> None:
        """Index words."""
        self.words = np.array(sorted(set(words)), dtype=object)
        self.sets = np.array([letter_set(word) for word in self.words], dtype=np.uint32)
        self.lengths = np.array([len(word) for word in self.words], dtype=np.int64)
        self.all = frozenset(self.words.tolist())
        self._rates: dict[tuple[str, str], float] = {}

    def find(self, word: str, max_edits: int) -> list[tuple[str, int]]:
        """Return the words with 1 to ``max_edits`` edits, and their distances."""
        changed = np.bitwise_count(self.sets ^ np.uint32(letter_set(word)))
        selected = (changed <= LETTER_CHANGES * max_edits) & (np.abs(self.lengths - len(word)) <= max_edits)
        choices = self.words[selected].tolist()
        matches = process.extract(word, choices, scorer=OSA.distance, score_cutoff=max_edits, limit=None)
        return [(near, int(distance)) for near, distance, _ in matches if distance]

    @cached_property
    def reversed_words(self) -> list[str]:
        """The words, reversed and sorted."""
        return sorted(word[::-1] for word in self.all)

    def derivation_rate(self, word: str, derived: str) -> float:
        """Return the rate of the change of endings from a word to another one; 0 if their stem is too short."""
        stem = next((i for i, (a, b) in enumerate(zip(word, derived, strict=False)) if a != b), None)
        stem = min(len(word), len(derived)) if stem is None else stem
        if stem < MIN_STEM or max(len(word), len(derived)) - stem > MAX_ENDING:
            return 0.0
        old, new = word[stem - 1 :], derived[stem - 1 :]  # with the last letter of the stem
        if (old, new) not in self._rates:
            self._rates[old, new] = self.compute_rate(old, new)
        return self._rates[old, new]

    def compute_rate(self, old: str, new: str) -> float:
        """Return the share of the words that end with ``old`` for which the list has the word with ``new``."""
        words, key = self.reversed_words, old[::-1]
        first, last = bisect_left(words, key), bisect_left(words, key + "\U0010ffff")
        sample = words[first : last : max(1, (last - first) // MAX_SAMPLE)]
        count = sum(word[: len(key) - 1 : -1] + new in self.all for word in sample)
        return count / (len(sample) + RATE_STRENGTH)

    @cached_property
    def first_parts(self) -> dict[str, float]:
        """First part -> its share of all first parts."""
        counts = Counter(
            word[:stop]
            for word in self.all
            for stop in range(MIN_FIRST, len(word) - MIN_REST + 1)
            if word[stop:] in self.all
        )
        frequent = {part: count for part, count in counts.items() if count >= MIN_FIRST_WORDS}
        return {part: count / sum(frequent.values()) for part, count in frequent.items()}

    @cached_property
    def near_first_parts(self) -> "NearWords":
        """The first parts, for the search of first parts near a given one."""
        return NearWords(self.first_parts)

    @cached_property
    def letters(self) -> CharNgramMixture:
        """Letter model of the words; each word counts once."""
        return CharNgramMixture.of([CharNgramModel.of("letters", [SEPARATOR.join(self.words)], LETTER_ORDER)])

    def spelling_log_probs(self, words: Iterable[str]) -> Floats:
        """Return the log-probability of each word (n,) under the letter model."""
        words = list(words)
        if not words:
            return np.zeros(0)
        log_probs = self.letters.log_probs(SEPARATOR.join(words) + "\n", SEPARATOR)
        stops = np.cumsum([len(word) + len(SEPARATOR) for word in words]) - len(SEPARATOR) + 1
        total = np.concatenate([[0.0], np.cumsum(log_probs)])
        sums: Floats = total[stops] - total[stops - 1 - np.array([len(word) for word in words])]
        return sums


def letter_set(word: str) -> int:
    """Return the set of the letters of a word as bits."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & SET_BITS)
    return bits


@lru_cache(maxsize=MAX_CACHED_LISTS)
def load_near_words(language: str) -> NearWords:
    """Index a shipped word list. The result is cached for the process."""
    return NearWords(word.decode().lower() for word in load_word_list(language).probs)


@cache
def rare_share(language: str) -> float:
    """Return the share of the rarest lower-case words of a list in its texts: a measure of its unknown words."""
    probs = np.array([prob for word, prob in load_word_list(language).probs.items() if word.decode().islower()])
    return float(probs[probs <= RARE * probs.min()].sum())
