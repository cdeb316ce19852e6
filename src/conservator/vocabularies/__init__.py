"""Vocabularies: the tokens that experts predict, and the text that the tokens stand for."""

from conservator.vocabularies.bytes import BYTES, ByteVocabulary
from conservator.vocabularies.utf8 import Candidates, Utf8
from conservator.vocabularies.vocabulary import Constraint, Encoded, Numbered, Vocabulary

__all__ = ["BYTES", "ByteVocabulary", "Candidates", "Constraint", "Encoded", "Numbered", "Utf8", "Vocabulary"]
