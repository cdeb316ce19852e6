"""Features of a word in a text without capital letters, hashed to numbers.

The features of a word are its beginning and end, its length, the word itself, the words beside it, the characters
between them, and how often the word list of the language has the words with a capital letter. ``state_features``
combine some of them with whether the word before has a capital letter.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple
from zlib import crc32

import numpy as np

from conservator.arrays import Ints
from conservator.experts.word_ngram.lists import CONFIG, load_word_list
from conservator.experts.word_ngram.lists import FOLDER as LISTS

BITS = 20  # bits: of a hashed feature [untuned]
SIZE = 1 << BITS
COUNT = 22  # features: of a word [definition]
COMBINED = (0, 3, 13, 9, 10, 19)  # indices: of the features that are combined with the word before [untuned]
LEXICAL = 3  # features: at the end of the list, that name the word itself [definition]
SHARES = (0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 0.98, 0.9999)  # ratio: bounds of the shares of capital letters [untuned]
FREQUENCIES = (3e-6, 3e-5, 3e-4)  # probability: bounds of the frequencies of words [untuned]
WRAPPED_LENGTH = 45  # characters: a line of this length may continue in the next one [untuned]
TURKISH = ("tr", "az")
_LETTERS = "[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f])*"
WORD = re.compile(rf"{_LETTERS}(?:['\u2019](?:[sS]|[tT]|[lL][lL]|[rR][eE]|[vV][eE]|[dD]|[mM])(?![^\W\d_]))?")
SENTENCE_END = re.compile(r"[.!?\u2026\u061f\u0964]['\u2019\u201d\u00bb\")\]]*\s")
QUOTES = str.maketrans("\u2019\u2018\u201c\u201d", "''\"\"")


class CaseWord(NamedTuple):
    """A word of a text: its first character, its end, and the kind of the characters before it."""

    start: int
    stop: int
    gap: str


def lower(text: str, language: str = "") -> str:
    """Return a text in small letters, of the same length."""
    if language in TURKISH:
        text = text.replace("I", "\u0131").replace("\u0130", "i")
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(keep_length(char, char.lower()) for char in text)


def upper(character: str, language: str = "") -> str:
    """Return a character as a capital letter; unchanged if its capital is not one character."""
    if language in TURKISH and character in "i\u0131":
        return "\u0130" if character == "i" else "I"
    return keep_length(character, character.title())


def keep_length(character: str, changed: str) -> str:
    """Return ``changed`` if it is one character, otherwise ``character``."""
    return changed if len(changed) == 1 else character


def case_words(text: str) -> list[CaseWord]:
    """Return the words of a text."""
    words, end, line = list[CaseWord](), 0, 0
    for match in WORD.finditer(text):
        gap = text[end : match.start()]
        line = text.rfind("\n", 0, end) + 1 if "\n" in gap else line
        words.append(CaseWord(*match.span(), gap_kind(gap, end - line) if end else "\n"))
        end = match.end()
    return words


def gap_kind(gap: str, length: int) -> str:
    """Return the kind of the characters between two words: a line or a sentence starts, or the characters themselves.

    Args:
        gap: The characters.
        length: Length of the line before the gap.
    """
    if "\n" in gap:
        is_wrapped = gap.count("\n") == 1 and length >= WRAPPED_LENGTH and not gap.split("\n")[0].strip(" ,-")
        if not is_wrapped:
            return "\n"
    if SENTENCE_END.search(gap):
        return "." + gap[-1].translate(QUOTES)
    short = re.sub(r"\d+", "0", re.sub(r"\s+", " ", gap.translate(QUOTES)))
    return short if len(short) < 5 else "x" + short[-1:]


def is_start(gap: str) -> bool:
    """Return whether a line or a sentence starts after a gap of this kind."""
    return gap == "\n" or (gap.startswith(".") and len(gap) == 2 and gap != "..")


def features(words: Sequence[str], gaps: Sequence[str], language: str) -> Ints:
    """Return the features (n, COUNT) of words in small letters, with the kinds of the gaps before them."""
    padded, kinds, rows = ["<", "<", *words, ">", ">"], [*gaps, "\n"], []
    listed = listed_shares(language)
    shares = [listed.get(word, "?") for word in padded]
    for index, word in enumerate(words):
        before2, before, after, after2 = (padded[index + offset] for offset in (0, 1, 3, 4))
        left, right = kinds[index], kinds[index + 1]
        share_before, share, share_after = shares[index + 1 : index + 4]
        if is_start(left):
            share_before = "<"
            before = before2 = "<"
        if is_start(right):
            share_after = ">"
            after = after2 = ">"
        names = (
            f"0{left}",
            f"1{word[-1:]}\t{is_start(left)}",
            f"2{word[-2:]}",
            f"3{word[-3:]}",
            f"4{word[-4:]}",
            f"5{word[:3]}",
            f"6{word[:2]}",
            f"7{min(len(word), 12)}",
            f"8{left}\t{right}",
            f"9{before}\t{left}",
            f"a{after}\t{right}",
            f"b{before2}\t{before}",
            f"c{after}\t{after2}",
            f"g{share}\t{is_start(left)}",
            f"h{share}\t{share_before}\t{left}",
            f"i{share}\t{share_after}\t{right}",
            f"j{share}\t{word[-2:]}",
            f"k{share}\t{before}",
            f"l{share}\t{after}",
            f"d{word}",
            f"e{before}\t{word}",
            f"f{word}\t{after}",
        )
        rows.append([crc32(name.encode()) & (SIZE - 1) for name in names])
    return np.array(rows, dtype=np.int64).reshape(-1, COUNT)


@cache
def listed_shares(language: str) -> Mapping[str, str]:
    """Return word in small letters -> classes of its share with a capital letter in the list, and of its frequency."""
    if not (LISTS / f"{language}.gz").exists():
        return {}
    totals: dict[str, list[float]] = {}
    probs = load_word_list(language).probs
    for word, prob in probs.items():
        text = word.decode()
        small = lower(text, language)
        is_capital = text != small
        if is_capital:  # without the forms that ``WordList.of`` derives
            prob = max(0.0, prob - CONFIG.capitalised_share * probs.get((small[0] + text[1:]).encode(), 0.0))
        totals.setdefault(small.replace("\u2019", "'"), [0.0, 0.0])[is_capital] += prob
    return {
        word: f"{bisect_right(SHARES, capital / max(total, 1e-12))}{bisect_right(FREQUENCIES, total)}"
        for word, (small_prob, capital) in totals.items()
        if (total := small_prob + capital) > 0
    }


def state_features(base: Ints) -> Ints:
    """Return the features (n, 2, 6) of words for a word before without and with a capital letter."""
    combined = base[:, COMBINED].astype(np.uint64)
    salts = np.arange(2 * len(COMBINED), dtype=np.uint64).reshape(2, -1) + np.uint64(1)
    mixed = (combined[:, None, :] + salts * np.uint64(SIZE)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(64 - BITS)).astype(np.int64)
