"""Words that no list has: a character n-gram model of the words of a language.

    p(v) = prod over characters c of v, and the end of the word, of  p(c | characters before it in the word)

Every listed word counts once, because unseen words resemble rare words.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from conservator.arrays import Floats, Ints
from conservator.experts.char_ngram.model import CharNgramModel, code_points
from conservator.experts.char_ngram.trie import Trie, find_contexts, probability
from conservator.experts.word_ngram.lists import CONFIG, load_word_list
from conservator.numerics import compiled

ORDER = 6  # characters: length of the longest n-gram [untuned]
END = 10  # code point: of the end of a word, and of what precedes it [definition]


@dataclass(frozen=True)
class UnseenWords:
    """Probabilities of the character strings of a text as words.

    Attributes:
        trie: Character n-grams of the words.
    """

    trie: Trie

    def log_probs(self, text: str, max_length: int) -> Floats:
        """Return log p (n, max_length) of the 1 to ``max_length`` characters from each position of a text (n)."""
        return score_words(self.trie, code_points(text), max_length)


@cache
def load_unseen_words(language: str) -> UnseenWords:
    """Count the words of a shipped word list. The result is cached for the process."""
    probs = load_word_list(language).probs
    words = []
    for word, prob in probs.items():
        text = word.decode()
        lower = (text[0].lower() + text[1:]).encode()
        is_derived = text[0].isupper() and prob <= 2 * CONFIG.capitalised_share * probs.get(lower, 0.0)
        if not is_derived:
            words.append(text)
    return UnseenWords(CharNgramModel.of(language, ["\n".join(words) + "\n"], ORDER).trie)


@compiled
def score_words(trie: Trie, characters: Ints, max_length: int) -> Floats:
    """Return log p (n, max_length) of the words that start at each position; -inf beyond the end of the text."""
    size = len(characters)
    scores = np.full((size, max_length), -np.inf)
    path = np.zeros(trie.order, dtype=np.int64)
    history = np.zeros(max_length + 1, dtype=np.int64)
    history[0] = END
    for start in range(size):
        total = 0.0
        for length in range(1, min(max_length, size - start) + 1):
            count = find_contexts(trie, 0, history[max(0, length - trie.order + 1) : length], path)
            character = characters[start + length - 1]
            total += np.log(probability(trie, path[:count], character))
            history[length] = character
            count = find_contexts(trie, 0, history[max(0, length - trie.order + 2) : length + 1], path)
            scores[start, length - 1] = total + np.log(probability(trie, path[:count], END))
    return scores
