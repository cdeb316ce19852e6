"""How common a character is in text, without counts: from its rank in alphabets and its row in legacy encodings."""

from collections.abc import Iterator
from functools import cache
from unicodedata import category

from conservator.documents.codepages import LETTERS, SYMBOLS

# Encoding -> first bytes of its frequent characters: kana and the first level of Chinese characters, Hangul.
FREQUENT_ROWS = {
    "gb2312": ((0xA3, 0xA3), (0xB0, 0xD7)),
    "big5": ((0xA4, 0xC6),),
    "euc_jp": ((0xA4, 0xA5), (0xB0, 0xCF)),
    "euc_kr": ((0xB0, 0xC8),),
}
CAPITAL = 0.1  # ratio: of a capital letter to its small letter [untuned]
FREQUENT = 0.1  # ratio: of a character in FREQUENT_ROWS to the most frequent one [untuned]
SHARED = 3.0  # ratio: of a frequent character of several encodings to that of one less [untuned]
ENCODED = 0.01  # ratio: of another character that an encoding has [untuned]
LETTER = 0.003  # ratio: of a letter that none of the encodings has [untuned]
OTHER = 0.0003  # ratio: of any other character [untuned]


def rank_characters() -> Iterator[tuple[str, float]]:
    """Yield characters with 1 / rank in their alphabets."""
    for characters in (SYMBOLS, *LETTERS.values()):
        for rank, character in enumerate(characters):
            yield character, 1 / (1 + rank)
            if len(character.upper()) == 1:
                yield character.upper(), max(CAPITAL / (1 + rank), ENCODED)


@cache
def rank_table() -> dict[str, float]:
    """Return character -> its highest value of ``rank_characters``."""
    ranks: dict[str, float] = {}
    for character, value in rank_characters():
        ranks[character] = max(value, ranks.get(character, 0.0))
    return ranks


@cache
def commonness(character: str) -> float:
    """Return the frequency of a character outside ASCII relative to the most frequent one; a rough estimate."""
    ranked = rank_table().get(character)
    if ranked is not None:
        return ranked
    value = OTHER if category(character)[0] not in "LM" else LETTER
    for encoding, rows in FREQUENT_ROWS.items():
        try:
            first = character.encode(encoding)[0]
        except UnicodeEncodeError:
            continue
        value = max(value, ENCODED)
        if any(low <= first <= high for low, high in rows):
            value = SHARED * value if value >= FREQUENT else FREQUENT
    return value
