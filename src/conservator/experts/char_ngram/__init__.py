"""Character n-gram models: fast causal priors for the correction of misread text."""

from conservator.experts.char_ngram.model import REFERENCES, WORDS, CharNgramMixture, CharNgramModel, code_points
from conservator.experts.char_ngram.storage import load_char_ngram_models
from conservator.experts.char_ngram.trie import ORDER, Trie

__all__ = [
    "ORDER",
    "REFERENCES",
    "WORDS",
    "CharNgramMixture",
    "CharNgramModel",
    "Trie",
    "code_points",
    "load_char_ngram_models",
]
