"""Word n-grams: an expert that counts words in reference texts and in the document."""

from conservator.experts.word_ngram.counts import HIDDEN_BYTE, WORD, WordCounts, count_word_ngrams
from conservator.experts.word_ngram.expert import WordExpert, WordModel
from conservator.experts.word_ngram.frequencies import WordFrequencies
from conservator.experts.word_ngram.lists import identify_languages, load_word_list

__all__ = [
    "HIDDEN_BYTE",
    "WORD",
    "WordCounts",
    "WordExpert",
    "WordFrequencies",
    "WordModel",
    "count_word_ngrams",
    "identify_languages",
    "load_word_list",
]
