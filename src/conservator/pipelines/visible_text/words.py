"""Log-probabilities of single words, for channels of visible text.

    log p(v) = log( p(v) of the word frequencies, or of v in lower case  +  u exp(-a length(v)) )

The last term is the probability of an unseen word: u = ``unseen_prob`` and a = ``letter_nats`` per character.
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp, log

from conservator.experts.char_ngram import REFERENCES
from conservator.experts.word_ngram import WordFrequencies

UNSEEN_PROB = 0.05  # probability: of all words that no list has [untuned]
LETTER_NATS = 2.2  # nats per character: of an unseen word [LOG: word-expert]
CAPITALS_PROB = 0.02  # probability: a word is written in capital letters [untuned]


@dataclass(frozen=True)
class WordScores:
    """Log-probabilities of words of one text; results are cached.

    Attributes:
        frequencies: Word frequencies for the text.
    """

    frequencies: WordFrequencies

    @cached_property
    def _cache(self) -> dict[tuple[str, int], float]:
        """(word, excluded) -> its known probability."""
        return {}

    def known_prob(self, word: str, excluded: int = 0) -> float:
        """Return the probability of a word that was counted or listed, in this form or in lower case; otherwise 0."""
        key = word, excluded
        if key not in self._cache:
            prob = self.frequencies.prob(word.encode(), excluded=excluded)
            if len(word) > 1 and word.isupper():
                prob += CAPITALS_PROB * max(
                    self.frequencies.list_frequency(word.lower().encode()),
                    self.frequencies.list_frequency(word.capitalize().encode()),
                )
            self._cache[key] = prob
        return self._cache[key]

    def log_prob(self, word: str, excluded: int = 0) -> float:
        """Return log p(v) of a word."""
        return log(self.known_prob(word, excluded) + UNSEEN_PROB * exp(-LETTER_NATS * len(word)))


def model_names(frequencies: WordFrequencies) -> tuple[str, ...]:
    """Return the names of the models behind word frequencies: languages, and the references if there are any."""
    references = (REFERENCES,) if frequencies.references.total else ()
    return (*frequencies.languages, *references) or ("document",)
