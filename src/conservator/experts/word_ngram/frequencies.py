"""Frequencies of words: those of the word lists of the languages of a text, and counts of the text and of references.

With n the counts, where those of the text have the weight ``document_weight``, and r = ``list_strength``, both as in
the word expert, and f the frequencies of the word lists, mixed by the probabilities of the languages, a word v has

    p(v) = (n(v) + r f(v)) / (n + r)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from conservator.experts.word_ngram.counts import WORD, WordCounts
from conservator.experts.word_ngram.expert import CONFIG, NO_COUNTS
from conservator.experts.word_ngram.lists import WordList, identify_languages, is_word, load_word_list


@dataclass(frozen=True)
class WordFrequencies:
    """Word frequencies for one text.

    Attributes:
        languages: language -> its probability; empty if no language was identified.
        document: word of the text -> its count.
        references: counts of reference texts.
    """

    languages: Mapping[str, float]
    document: Mapping[bytes, int]
    references: WordCounts = NO_COUNTS

    @classmethod
    def of(cls, text: bytes, references: WordCounts = NO_COUNTS) -> "WordFrequencies":
        """Count the words of a text, and identify its languages."""
        words = (match[0] for match in WORD.finditer(text))
        return cls(identify_languages(text), Counter(filter(is_word, words)), references)

    @cached_property
    def lists(self) -> Sequence[tuple[WordList, float]]:
        """The word list of each language, and the probability of the language."""
        return [(load_word_list(name), probability) for name, probability in self.languages.items()]

    @cached_property
    def total(self) -> float:
        """The sum n + r of all counts."""
        counted = self.references.total + CONFIG.document_weight * sum(self.document.values())
        return max(1.0, counted + (CONFIG.list_strength if self.languages else 0.0))

    def list_frequency(self, word: bytes) -> float:
        """Return f(v) of a word; 0 if no list has it."""
        return sum(probability * word_list.probs.get(word, 0.0) for word_list, probability in self.lists)

    def reference_count(self, word: bytes) -> float:
        """Return the count of a word in the references."""
        word_id = self.references.ids.get(word, -1)
        return self.references.tables.unigrams.at(word_id) if word_id >= 0 else 0.0

    def prob(self, word: bytes, *, excluded: int = 0) -> float:
        """Return p(v) of a word; 0 if it was not counted and no list has it.

        Args:
            word: The word.
            excluded: Occurrences in the text that are not counted, such as the one that is examined.
        """
        document_count = max(0, self.document.get(word, 0) - excluded)
        counted = self.reference_count(word) + CONFIG.document_weight * document_count
        return (counted + CONFIG.list_strength * self.list_frequency(word)) / self.total
