"""Words of a list that are near a given word, and the letter model of the list.

A word is near another one if its optimal string alignment distance, which counts a transposition as one edit, is at
most 2. An edit changes the set of letters of a word by at most two letters, so the words whose sets differ by more than
2 letters per edit are excluded without computing a distance.
"""

from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from conservator.arrays import Floats
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel
from conservator.experts.word_ngram.lists import load_word_list

SET_BITS = 31  # bits: of the set of the letters of a word, by their code points modulo 32 [definition]
LETTER_CHANGES = 2  # letters: by which an edit changes the set of the letters of a word at most [definition]
LETTER_ORDER = 6  # characters: length of the longest n-gram of the letter model [untuned]
MAX_CACHED_LISTS = 8  # word lists: that are kept with their index; about 20 MB each [safety limit]


class NearWords:
    """Lower-case words, for the search of words near a given word."""

    def __init__(self, words: Iterable[str]) -> None:
        """Index words."""
        self.words = np.array(sorted(set(words)), dtype=object)
        self.sets = np.array([letter_set(word) for word in self.words], dtype=np.uint32)
        self.lengths = np.array([len(word) for word in self.words], dtype=np.int64)

    def find(self, word: str, max_edits: int) -> list[tuple[str, int]]:
        """Return the words with 1 to ``max_edits`` edits, and their distances."""
        changed = np.bitwise_count(self.sets ^ np.uint32(letter_set(word)))
        selected = (changed <= LETTER_CHANGES * max_edits) & (np.abs(self.lengths - len(word)) <= max_edits)
        choices = self.words[selected].tolist()
        matches = process.extract(word, choices, scorer=OSA.distance, score_cutoff=max_edits, limit=None)
        return [(near, int(distance)) for near, distance, _ in matches if distance]

    @cached_property
    def letters(self) -> CharNgramMixture:
        """Letter model of the words; each word counts once."""
        return CharNgramMixture.of([CharNgramModel.of("letters", ["\n".join(self.words)], LETTER_ORDER)])

    def spelling_log_probs(self, words: Iterable[str]) -> Floats:
        """Return the log-probability of each word (n,) under the letter model."""
        words = list(words)
        if not words:
            return np.zeros(0)
        log_probs = self.letters.log_probs("\n".join(words) + "\n")
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
        sums: Floats = np.add.reduceat(log_probs, starts)
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
