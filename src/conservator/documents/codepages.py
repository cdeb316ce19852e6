"""Detect the one-byte encoding of a text: the encoding under which it is the most likely European text."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

# The non-ASCII letters of each language, the most frequent first.
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
# The encodings and their languages; of equally likely encodings, the first is chosen.
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
COMPLETE = "iso8859-1"  # it has a character for every byte
SYMBOLS = "’–“”…‘„—«»€§°·©®™²³µ×±½¼£¢¥¡¿\u00a0•´¨ºª\u00ad¶"  # noqa: RUF001, the most frequent first
WORD_SYMBOLS = "’·\u00ad"  # noqa: RUF001, symbols that occur between letters
NON_ASCII = re.compile(rb"[\x80-\xff]")


@dataclass(frozen=True)
class CodepageConfig:
    """Parameters of the score of an encoding and a language, tuned on manual pages in ten languages."""

    rare_encoding_nats: float = 4.0  # nats: prior log-odds of COMMON against another encoding [LOG: encoding-detection]
    max_sample: int = 4000  # characters: non-ASCII characters that are scored [safety limit]
    unexpected_nats: float = -9.0  # nats: score of a character in no alphabet and no symbol [LOG: encoding-detection]
    control_nats: float = 5.0  # nats: further penalty of a control character [LOG: encoding-detection]
    capital_nats: float = 1.0  # nats: penalty of a capital letter [LOG: encoding-detection]
    capital_in_word_nats: float = 6.0  # nats: penalty after a small letter [LOG: encoding-detection]
    small_after_capital_nats: float = 3.0  # nats: penalty of a small letter after a capital [LOG: encoding-detection]
    digit_nats: float = 3.0  # nats: penalty of a letter beside a digit [LOG: encoding-detection]
    mixed_script_nats: float = 6.0  # nats: penalty for each Latin neighbour of another script [LOG: encoding-detection]
    symbol_nats: float = -2.5  # nats: score of the most frequent symbol [LOG: encoding-detection]
    symbol_rank_nats: float = 0.1  # nats: penalty for each rank of a symbol [LOG: encoding-detection]
    symbol_in_word_nats: float = 5.0  # nats: penalty of a symbol between letters [LOG: encoding-detection]


CONFIG = CodepageConfig()


def guess_codepage(data: bytes) -> str:
    """Return the most likely one-byte encoding of a text.

    Each non-ASCII character is scored with its neighbours, by its frequency in a language and by its context: a symbol
    within a word, a capital after a small letter, or a Greek letter beside a Latin letter is unlikely. The pair of an
    encoding and a language with the highest total score is chosen.
    """
    padded = b" " + data
    sample = islice(NON_ASCII.finditer(data), CONFIG.max_sample)
    contexts = Counter(padded[match.start() : match.start() + 3] for match in sample)
    best_score, best_encoding = -math.inf, COMPLETE
    for encoding, languages in CODEPAGES.items():
        try:
            decoded = [(context.decode(encoding).ljust(3), count) for context, count in contexts.items()]
        except UnicodeDecodeError:
            continue
        for language in languages:
            score = sum(count * _score(*context, language) for context, count in decoded)
            score -= 0.0 if encoding == COMMON else CONFIG.rare_encoding_nats
            if score > best_score:
                best_score, best_encoding = score, encoding
    return best_encoding if _can_decode(data, best_encoding) else COMPLETE


def _can_decode(data: bytes, encoding: str) -> bool:
    """Whether an encoding has a character for every byte of the text."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=2**16)
def _score(before: str, character: str, after: str, language: str) -> float:
    """Return the log-probability, up to a constant, of a non-ASCII character between two others in a language."""
    if character.isalpha() and character not in "ºª":
        rank = LETTERS[language].find(character)
        rank = LETTERS[language].find(character.lower()) if rank < 0 else rank
        score = CONFIG.unexpected_nats if rank < 0 else -math.log(2 + rank)
        if character.isupper():
            score -= CONFIG.capital_nats + CONFIG.capital_in_word_nats * before.islower()
        elif before.isupper() and not after.islower():
            score -= CONFIG.small_after_capital_nats
        score -= CONFIG.digit_nats * (before.isdigit() or after.isdigit())
        if character > "ʯ":  # a word does not mix Greek or Cyrillic letters with Latin ones
            latin = sum(neighbour.isascii() and neighbour.isalpha() for neighbour in (before, after))
            score -= CONFIG.mixed_script_nats * latin
        return score
    if character in SYMBOLS:
        inside = before.isalpha() and after.isalpha() and character not in WORD_SYMBOLS
        rank_penalty = CONFIG.symbol_rank_nats * SYMBOLS.index(character)
        return CONFIG.symbol_nats - rank_penalty - CONFIG.symbol_in_word_nats * inside
    is_control = character < "\u00a0"
    return CONFIG.unexpected_nats - CONFIG.control_nats if is_control else CONFIG.unexpected_nats
