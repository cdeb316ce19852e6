"""Vocabularies: the tokens that experts predict, and the text that the tokens stand for."""

from conservator.vocabularies.bytes import BYTES, ByteVocabulary
from conservator.vocabularies.characters import CHARACTERS, CharacterVocabulary
from conservator.vocabularies.repertoire import Repertoire
from conservator.vocabularies.utf8 import Candidates, Utf8
from conservator.vocabularies.vocabulary import Constraint, Encoded, Numbered, Vocabulary

VOCABULARIES: dict[str, ByteVocabulary | CharacterVocabulary] = {
    vocabulary.fingerprint: vocabulary for vocabulary in (BYTES, CHARACTERS)
}

__all__ = [
    "BYTES",
    "CHARACTERS",
    "VOCABULARIES",
    "ByteVocabulary",
    "Candidates",
    "CharacterVocabulary",
    "Constraint",
    "Encoded",
    "Numbered",
    "Repertoire",
    "Utf8",
    "Vocabulary",
]
