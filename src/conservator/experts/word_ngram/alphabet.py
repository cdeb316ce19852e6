"""An alphabet: one byte for each character, so that word models of bytes become word models of characters.

ASCII characters keep their byte. Frequent letters outside ASCII get the codes from 128, frequent punctuation outside
ASCII gets the codes of control characters, which are no letters. All other characters share the code OTHER.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np

from conservator.arrays import Ints
from conservator.experts.word_ngram.counts import SpellingModel, WordCounts
from conservator.experts.word_ngram.lists import WordList, load_word_list
from conservator.vocabularies import BYTES

OTHER = 0xFD  # code: of all characters without a code of their own [definition]
FIRST_CODE = 0x80  # code: of the first letter outside ASCII [definition]
LETTER_CODES = range(FIRST_CODE, OTHER)
PUNCTUATION_CODES = (*range(0x01, 0x09), *range(0x0E, 0x20))  # control characters that are not white space
MAX_CACHED_LISTS = 8  # word lists: that are kept in codes; about 20 MB each [safety limit]
JOINERS = "\u2019\u02bc\u200c\u200d"  # characters in words that Unicode counts as punctuation or format


class CodeTable(dict[int, int]):
    """Code point -> code, for ``str.translate``; characters without a code become OTHER."""

    def __missing__(self, code_point: int) -> int:
        """Return the code of a character that is not in the table."""
        return code_point if code_point < LETTER_CODES.start else OTHER


@dataclass(frozen=True)
class Alphabet:
    """The characters outside ASCII that have a code.

    Attributes:
        letters: letters outside ASCII, in the order of their codes.
        punctuation: punctuation outside ASCII, in the order of its codes.
    """

    letters: str
    punctuation: str

    @classmethod
    def of(cls, characters: Iterable[str]) -> "Alphabet":
        """Make an alphabet of the first characters that have codes left."""
        distinct = [character for character in dict.fromkeys(characters) if not character.isascii()]
        letters = [character for character in distinct if is_letter(character)]
        punctuation = [character for character in distinct if not is_letter(character)]
        return cls("".join(letters[: len(LETTER_CODES)]), "".join(punctuation[: len(PUNCTUATION_CODES)]))

    @property
    def text(self) -> str:
        """All characters outside ASCII."""
        return self.letters + self.punctuation

    @cached_property
    def codes(self) -> dict[str, int]:
        """Character outside ASCII -> code."""
        return dict(zip(self.letters, LETTER_CODES, strict=False)) | dict(
            zip(self.punctuation, PUNCTUATION_CODES, strict=False)
        )

    @cached_property
    def table(self) -> CodeTable:
        """Code point -> code; control characters that are codes become OTHER."""
        table = CodeTable(dict.fromkeys(PUNCTUATION_CODES, OTHER))
        table.update({ord(character): code for character, code in self.codes.items()})
        return table

    @cached_property
    def characters(self) -> tuple[bytes, ...]:
        """(256,) the character of each code in UTF-8; empty for codes without a character."""
        is_ascii = [code < LETTER_CODES.start and code not in PUNCTUATION_CODES for code in range(BYTES.size)]
        texts = [bytes([code]) if flag else b"" for code, flag in enumerate(is_ascii)]
        for character, code in self.codes.items():
            texts[code] = character.encode()
        return tuple(texts)

    @cached_property
    def widths(self) -> Ints:
        """(256,) number of bytes of each character; 0 for codes without a character."""
        return np.array([len(character) for character in self.characters])

    def encode(self, text: str) -> bytes:
        """Return the codes of a text."""
        return text.translate(self.table).encode("latin-1")

    def encode_words(self, words: Iterable[bytes]) -> list[bytes]:
        """Return the codes of words in UTF-8 without line breaks."""
        data = b"\n".join(words)
        return self.encode(data.decode(errors="replace")).split(b"\n") if data else []

    def encode_list(self, name: str) -> WordList:
        """Return a shipped word list in codes, without words that have characters without a code."""
        return encode_list(name, tuple(self.codes.get(character, OTHER) for character in list_characters(name)))

    def encode_counts(self, counts: WordCounts) -> WordCounts:
        """Return word counts in codes; words that have characters without a code keep no code."""
        words = [word for word in counts.ids if word != b"\n"]
        ids = {word: counts.ids[original] for word, original in zip(self.encode_words(words), words, strict=True)}
        ids |= {word: number for word, number in counts.ids.items() if word == b"\n"}
        return WordCounts(ids, counts.tables, counts.separators, counts.total)


def is_letter(character: str) -> bool:
    """Return whether a character outside ASCII occurs in words."""
    return unicodedata.category(character)[0] in "LMN" or character in JOINERS


@cache
def list_characters(name: str) -> str:
    """Return the characters outside ASCII of a shipped word list, the most frequent first."""
    counts: defaultdict[str, float] = defaultdict(float)
    for word, prob in load_word_list(name).probs.items():
        for character in word.decode() if not word.isascii() else "":
            if not character.isascii():
                counts[character] += prob
    return "".join(sorted(counts, key=lambda character: (-counts[character], character)))


@lru_cache(maxsize=MAX_CACHED_LISTS)
def encode_list(name: str, codes: tuple[int, ...]) -> WordList:
    """Return a shipped word list, given the codes of its characters outside ASCII. The result is cached."""
    word_list = load_word_list(name)
    table = CodeTable(zip(map(ord, list_characters(name)), codes, strict=True))
    coded = b"\n".join(word_list.probs).decode().translate(table).encode("latin-1").split(b"\n")
    probs = {word: prob for word, prob in zip(coded, word_list.probs.values(), strict=True) if OTHER not in word}
    return WordList(probs, word_list.separators, SpellingModel.of(list(probs)))
