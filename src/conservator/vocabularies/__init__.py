"""Vocabularies: the tokens that experts predict, and the text that the tokens stand for."""

from conservator.vocabularies.bytes import BYTES, ByteVocabulary
from conservator.vocabularies.character_set import Repertoire
from conservator.vocabularies.characters import CHARACTERS, CharacterVocabulary
from conservator.vocabularies.tokens import LONGEST, Tokens
from conservator.vocabularies.utf8 import Candidates, Utf8
from conservator.vocabularies.vocabulary import Constraint, Encoded, Numbered, Vocabulary
from conservator.vocabularies.wordpiece import Word, Words

__all__ = [
    "BYTES",
    "CHARACTERS",
    "LONGEST",
    "ByteVocabulary",
    "Candidates",
    "CharacterVocabulary",
    "Constraint",
    "Encoded",
    "Numbered",
    "Repertoire",
    "Tokens",
    "Utf8",
    "Vocabulary",
    "Word",
    "Words",
]
