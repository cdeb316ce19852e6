"""Which one-byte encoding a text is in: the one in which its characters make the most likely European text."""

import math
import re
from collections import Counter
from functools import lru_cache

# The letters outside ASCII of each language, the most frequent first.
LETTERS = {
    "en": "éïèüöñçêôàáóíâæëøåäœ",
    "de": "üäößé",
    "fr": "éèàêçùôîûâëïœüÿæ",
    "es": "óáíéñúü",
    "it": "èàùìòéî",
    "pt": "ãçéáíõóêúâôà",
    "nl": "ëéïèöüó",
    "sv": "äöåé",
    "da": "æøåé",
    "is": "áíðóéöæúþý",
    "et": "äõüöšž",
    "pl": "łążęóśćńź",
    "cs": "íáěéřýčžšůúťďňó",
    "sk": "áíčéýžšúľťôňďóäĺŕ",
    "hu": "áéóöőíüúű",
    "ro": "ăîâșțşţ",
    "hr": "čžšćđ",
    "tr": "ıüşğöçİâî",
    "lt": "ėųšžįūčąę",
    "lv": "āīēšūžņļģķč",
    "ru": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
    "uk": "оаниітрвесклудмпяьзгбчйхжїющшєцфґ",
    "el": "αοιετνσρηυςκπλμίόάωέήγδθχφύώβξζψϊϋ",
}
# The encodings and the languages that they were made for; of equally likely ones, the first is taken.
CODEPAGES = {
    "cp1252": ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "is", "et"),
    "cp1250": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "cp1251": ("ru", "uk"),
    "iso8859-15": ("de", "fr", "es", "it", "pt", "et"),
    "iso8859-2": ("pl", "cs", "sk", "hu", "ro", "hr"),
    "iso8859-16": ("ro",),
    "cp1254": ("tr",),
    "cp1257": ("lt", "lv"),
    "cp1253": ("el",),
    "iso8859-7": ("el",),
    "koi8-u": ("ru", "uk"),
    "cp850": ("de", "fr", "es", "it", "pt", "nl", "sv", "da"),
    "cp852": ("pl", "cs", "sk", "hu", "hr"),
    "cp866": ("ru", "uk"),
    "mac-roman": ("en", "de", "fr", "es", "it", "pt", "sv", "da"),
    "mac-latin2": ("pl", "cs", "sk", "hu"),
    "mac-cyrillic": ("ru",),
}
COMMON = "cp1252"
WITHOUT_HOLES = "iso8859-1"  # every byte is a character in it
RARER = 4.0  # nats: by how much another encoding is less likely than COMMON, before the text is seen
SIGNS = "’–“”…‘„—«»€§°·©®™²³µ×±½¼£¢¥¡¿\u00a0•´¨ºª\u00ad¶"  # noqa: RUF001, the most frequent first
IN_WORDS = "’·\u00ad"  # noqa: RUF001, signs that stand between letters
SAMPLE = 4000  # characters outside ASCII that are looked at
STRANGE = -9.0  # nats: what is in no alphabet, and no usual sign
OUTSIDE = re.compile(rb"[\x80-\xff]")


def guess_codepage(data: bytes) -> str:
    """The most likely one-byte encoding of a text.

    Each character outside ASCII is scored together with its neighbours, by how frequent it is in a language and by
    whether it can stand there: a sign within a word, a capital after a small letter or a Greek letter beside a Latin
    one is unlikely. The pair of an encoding and a language with the highest sum is chosen.
    """
    seen = Counter(data[place - 1 : place + 2] if place else b" " + data[:2] for place in _places(data))
    best, found = -math.inf, WITHOUT_HOLES
    for encoding, languages in CODEPAGES.items():
        try:
            decoded = [(around.decode(encoding).ljust(3), times) for around, times in seen.items()]
        except UnicodeDecodeError:
            continue
        for language in languages:
            score = sum(times * _score(*around, language) for around, times in decoded)
            score -= 0.0 if encoding == COMMON else RARER
            if score > best:
                best, found = score, encoding
    return found if _whole(data, found) else WITHOUT_HOLES


def _places(data: bytes) -> list[int]:
    """Where the first bytes outside ASCII are."""
    found = []
    for match in OUTSIDE.finditer(data):
        found.append(match.start())
        if len(found) == SAMPLE:
            break
    return found


def _whole(data: bytes, encoding: str) -> bool:
    """Whether the whole text can be read in an encoding."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=2**16)
def _score(before: str, character: str, after: str, language: str) -> float:
    """A log-probability, up to a constant, of a character outside ASCII between two others, in a language."""
    if character.isalpha() and character not in "ºª":
        rank = LETTERS[language].find(character)
        rank = LETTERS[language].find(character.lower()) if rank < 0 else rank
        score = STRANGE if rank < 0 else -math.log(2 + rank)
        if character.isupper():
            score -= 1.0 + 6.0 * before.islower()
        elif before.isupper() and not after.islower():
            score -= 3.0
        score -= 3.0 * (before.isdigit() or after.isdigit())
        if character > "ʯ":  # neither Greek nor Cyrillic letters stand in one word with Latin ones
            score -= 6.0 * sum(one.isascii() and one.isalpha() for one in (before, after))
        return score
    if character in SIGNS:
        inside = before.isalpha() and after.isalpha() and character not in IN_WORDS
        return -2.5 - 0.1 * SIGNS.index(character) - 5.0 * inside
    return STRANGE if character >= "\u00a0" else STRANGE - 5.0  # the latter are control characters
