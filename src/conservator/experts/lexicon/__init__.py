"""The lexicon: words of many languages, which tell what characters outside ASCII a text lost."""

from conservator.experts.lexicon.expert import Lexicon, Reader
from conservator.experts.lexicon.words import MARK, Language, load_languages, lose

__all__ = ["MARK", "Language", "Lexicon", "Reader", "load_languages", "lose"]
