"""The lexicon: words of many languages, for the restoration of lost non-ASCII characters."""

from conservator.experts.lexicon.expert import Lexicon, LexiconExpert
from conservator.experts.lexicon.words import MARK, Language, load_languages, mask_non_ascii

__all__ = ["MARK", "Language", "Lexicon", "LexiconExpert", "load_languages", "mask_non_ascii"]
