"""An alphabet: one byte for each character, so that word models of bytes become word models of characters.

ASCII characters keep their byte. Frequent letters outside ASCII get the codes from 128, frequent punctuation outside
ASCII gets the codes of control characters, which are no letters. All other characters share the code OTHER.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conservator.arrays import Ints
from conservator.experts.word_ngram.counts import SpellingModel, WordCounts
from conservator.experts.word_ngram.lists import WordList
from conservator.vocabularies import BYTES

OTHER = 0xFD  # code of all characters without a code [definition]
LETTER_CODES = range(0x80, OTHER)
PUNCTUATION_CODES = (*range(0x01, 0x09), *range(0x0E, 0x20))  # control characters that are not white space
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
    def of(cls, counts: Mapping[str, float]) -> "Alphabet":
        """Make an alphabet of the most frequent characters; ``counts`` is character -> count."""
        ordered = sorted((char for char in counts if not char.isascii()), key=lambda char: (-counts[char], char))
        letters = [char for char in ordered if is_letter(char)]
        punctuation = [char for char in ordered if not is_letter(char)]
        return cls("".join(letters[: len(LETTER_CODES)]), "".join(punctuation[: len(PUNCTUATION_CODES)]))

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

    def encode_list(self, word_list: WordList) -> WordList:
        """Return a word list in codes, without words that have characters without a code."""
        coded = zip(self.encode_words(word_list.probs), word_list.probs.values(), strict=True)
        probs = {word: prob for word, prob in coded if OTHER not in word}
        return WordList(probs, word_list.separators, SpellingModel.of(list(probs)))

    def encode_counts(self, counts: WordCounts) -> WordCounts:
        """Return word counts in codes; words that have characters without a code keep no code."""
        words = [word for word in counts.ids if word != b"\n"]
        ids = {word: counts.ids[original] for word, original in zip(self.encode_words(words), words, strict=True)}
        ids |= {word: number for word, number in counts.ids.items() if word == b"\n"}
        return WordCounts(ids, counts.tables, counts.separators, counts.total)


def is_letter(character: str) -> bool:
    """Return whether a character outside ASCII occurs in words."""
    return unicodedata.category(character)[0] in "LMN" or character in JOINERS


def count_characters(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return character -> weighted count for pairs (text, weight); the counts of each text sum to its weight."""
    counts: Counter[str] = Counter()
    for text, weight in texts:
        for character, count in Counter(text).items():
            counts[character] += weight * count / len(text)
    return dict(counts)


def list_characters(word_list: WordList) -> dict[str, float]:
    """Return character -> frequency in a word list."""
    counts: Counter[str] = Counter()
    for word, prob in word_list.probs.items():
        for character in word.decode(errors="ignore"):
            counts[character] += prob
    return dict(counts)
