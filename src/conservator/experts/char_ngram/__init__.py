"""Models of characters in a row, counted in texts: quick causal priors for text that is wrong rather than missing."""

from conservator.experts.char_ngram.library import load_characters
from conservator.experts.char_ngram.model import REFERENCES, CharNgramMixture, CharNgramModel
from conservator.experts.char_ngram.trie import ORDER, Trie

__all__ = ["ORDER", "REFERENCES", "CharNgramMixture", "CharNgramModel", "Trie", "load_characters"]
