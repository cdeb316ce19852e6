"""Vocabularies: the tokens that experts predict, and the text that the tokens stand for."""

from conservator.vocabularies.bytes import BYTES, ByteVocabulary
from conservator.vocabularies.character_set import AllowedTokens
from conservator.vocabularies.characters import CHARACTERS, CharacterVocabulary
from conservator.vocabularies.tokens import MAX_TOKEN_BYTES, Tokens
from conservator.vocabularies.utf8 import Candidates, Utf8
from conservator.vocabularies.vocabulary import Constraint, Encoded, NumberedVocabulary, Vocabulary
from conservator.vocabularies.wordpiece import WordPieceToken, WordPieceTokens

__all__ = [
    "BYTES",
    "CHARACTERS",
    "MAX_TOKEN_BYTES",
    "AllowedTokens",
    "ByteVocabulary",
    "Candidates",
    "CharacterVocabulary",
    "Constraint",
    "Encoded",
    "NumberedVocabulary",
    "Tokens",
    "Utf8",
    "Vocabulary",
    "WordPieceToken",
    "WordPieceTokens",
]
