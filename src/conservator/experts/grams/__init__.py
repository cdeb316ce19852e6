"""Models of characters in a row, counted in texts: quick causal priors for text that is wrong rather than missing."""

from conservator.experts.grams.library import load_characters
from conservator.experts.grams.model import REFERENCES, CharacterModel, Mixture
from conservator.experts.grams.trie import ORDER, Trie

__all__ = ["ORDER", "REFERENCES", "CharacterModel", "Mixture", "Trie", "load_characters"]
