"""Protected tokens, whose characters a model of running text cannot predict: numbers, addresses, identifiers, codes.

A token is a run of characters without blanks. A change of a protected token is made only if a reference text contains
the resulting token.
"""

import re

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


def token_span(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the half-open range of the tokens that overlap or touch a range of a text."""
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while stop < len(text) and not text[stop].isspace():
        stop += 1
    return start, stop
