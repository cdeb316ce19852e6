"""Whether the word list of a language may know a text: its letters are those of the language.

The letters of a text in another language are the better evidence: most words of Slovak are not Slovenian, but so are
many names and rare words of any text. Words with Latin and other letters, which look alike, are in no list.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from conservator.experts.word_ngram.lists import load_word_list

LETTER_SHARE = 2e-5  # ratio: of the letters of a word list, that a letter of the language has [untuned]
MAX_FOREIGN = 0.004  # ratio: of letters of other languages in a text [LOG: spaces-letter-case-and-broken-words]
MIXED = re.compile(r"[\u0370-\u04ff][A-Za-z](?=[\u0370-\u04ff])")  # a Latin letter between Greek or Cyrillic ones


@cache
def alphabet(language: str) -> frozenset[str]:
    """Return the letters of the word list of a language, as small letters."""
    counts: Counter[str] = Counter()
    for word, prob in load_word_list(language).probs.items():
        for character in word.decode().lower():
            counts[character] += prob  # type: ignore[assignment]  # weighted
    total = sum(counts.values())
    return frozenset(character for character, count in counts.items() if count >= LETTER_SHARE * total)


def is_covered(text: str, languages: Mapping[str, float]) -> bool:
    """Return whether almost all letters of a text, except those of ASCII, are letters of its most probable language."""
    if not languages:
        return False
    letters = [character for character in text.lower() if character.isalpha()]
    known = alphabet(max(languages, key=lambda name: languages[name]))
    foreign = sum(not character.isascii() and character not in known for character in letters) + len(
        MIXED.findall(text)
    )
    return foreign <= MAX_FOREIGN * len(letters)
