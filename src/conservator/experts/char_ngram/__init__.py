"""Models of characters in a row, counted in texts: quick causal priors for text that is wrong rather than missing."""

from conservator.experts.char_ngram.library import load_characters
from conservator.experts.char_ngram.model import REFERENCES, CharacterModel, Mixture
from conservator.experts.char_ngram.trie import ORDER, Trie

__all__ = ["ORDER", "REFERENCES", "CharacterModel", "Mixture", "Trie", "load_characters"]
