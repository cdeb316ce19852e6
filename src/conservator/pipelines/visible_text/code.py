"""Parts of a text that are not running text: code, addresses, identifiers, file names and markup."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from conservator.pipelines.correction.protection import SYMBOLS, has_digit, is_name

MAX_CODE = 0.04  # ratio: of characters that are frequent in code, in a line of running text
CODE = re.compile(r"[;{}()\[\]<>=_\\|`@$&\u2500-\u257f]")  # characters that are frequent in lines of code
FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]+`|<[A-Za-z/!][^<>\n]*>|\]\([^()\n]*\)|^---\n.*?^---$", re.MULTILINE | re.DOTALL)
# Lines with a key and at most one value, comments and statements of programs.
STATEMENT = re.compile(
    r"\s*(?:- )?[\w.-]+:(?:\s+\S+)?\s*$|\s*(?:#|//|\*|%|;|--)|\s*(?:import|from|def|class|return|if|for|else|elif|try|"
    r"except|with|raise|var|let|const|function|public|private|static|export|npm|pip|git|cd|sudo|\$|>>>)\b[^.!?]*$"
)
FILE_NAME = re.compile(r"\w{2}[)'\"]?[./\\:][a-z_]{2}|^[.@~/]\w|\w\(\)")


def code_mask(text: str) -> NDArray[np.bool_]:
    """Return a mask (n,) of the characters of a text that are not running text."""
    mask = np.zeros(len(text), dtype=bool)
    for start, stop in code_ranges(text):
        mask[start:stop] = True
    return mask


def code_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of characters that are not running text."""
    for pattern in (FENCED, INLINE):
        yield from (match.span() for match in pattern.finditer(text))
    start = 0
    for line in text.splitlines(keepends=True):
        if is_code_line(line):
            yield start, start + len(line)
        start += len(line)
    for match in re.finditer(r"\S+", text):
        if is_code_token(match[0]):
            yield match.span()


def is_code_line(line: str) -> bool:
    """Return whether a line is code: many symbols, a statement, or indented and with a symbol."""
    symbols = len(CODE.findall(line))
    is_indented = line.startswith(("    ", "\t"))
    return symbols > MAX_CODE * len(line.strip()) or (is_indented and symbols > 0) or STATEMENT.match(line) is not None


def is_code_token(token: str) -> bool:
    """Return whether a token is an address, an identifier, a file name or a code."""
    has_both = has_digit(token) and any(map(str.isalpha, token))
    return is_name(token) or has_both or len(SYMBOLS.findall(token)) > 1 or FILE_NAME.search(token) is not None
