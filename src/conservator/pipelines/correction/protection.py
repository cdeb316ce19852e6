"""Protected tokens, whose characters a model of running text cannot predict: numbers, addresses, identifiers, codes.

A token is a run of characters without blanks. A change of a protected token is made only if a reference text contains
the resulting token.
"""

import re
from collections.abc import Iterable

EDGES = ".,;:!?'\"()[]{}<>\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026-\u2013\u2014"  # punctuation around a word
ADDRESS = re.compile(r"\w://|\bwww\.|\S@\S+\.\w|(?:[\w.~-]*[/\\]){2,}\w|\w\.\w{2,}/")  # URLs, mail addresses, paths
IDENTIFIER = re.compile(
    r"\w_+\w|\b_+\w|[^\W\d_]\(\)|\w::\w|\w->\w|[a-z]\.[a-z_]+\(|\$\w|\w=\w|--?\w+=|[a-z]{2}(?:[A-Z][a-z]{2,}){2}"
)
RECORD = re.compile(r"(?:[^\s,;|]+[,;|]){2,}[^\s,;|]+")  # a row of a table with separators
SYMBOLS = re.compile(r"[\\{}\[\]<>|^$*=~#&%+@]")  # a token with two or more of them is code or a formula
MAX_WORD_LENGTH = 24  # characters: a longer token is a code, or several words without spaces [untuned]


def is_name(token: str) -> bool:
    """Return whether a token is an address or an identifier."""
    return ADDRESS.search(token) is not None or IDENTIFIER.search(token) is not None


def has_digit(text: str) -> bool:
    """Return whether a text contains a digit."""
    return any(character.isdigit() for character in text)


def is_code(token: str) -> bool:
    """Return whether a token is a number, a code, a formula or a row of a table."""
    return (
        has_digit(token)
        or RECORD.fullmatch(token) is not None
        or len(SYMBOLS.findall(token)) >= 2
        or (len(token) > MAX_WORD_LENGTH and not token.islower())
    )


def find_tokens(texts: Iterable[str]) -> frozenset[str]:
    """Return the tokens of texts, without the punctuation around them."""
    return frozenset(token.strip(EDGES) for text in texts for token in text.split())


def token_span(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the half-open range of the tokens that overlap or touch a range of a text."""
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while stop < len(text) and not text[stop].isspace():
        stop += 1
    return start, stop
