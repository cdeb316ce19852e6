"""Filters that remove comments from training texts, so that one domain contains little of another (appendix "Data").

They use the tokenizer of the language, so that a ``#`` inside a string or a script is preserved. Each returns None for
a text that is not in its language.
"""

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterable
from itertools import accumulate

from conservator.documents import splice

Filter = Callable[[str], str | None]
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
Replacement = tuple[int, int, str]  # start and stop of a range of characters, and the new text


def strip_python_comments(text: str) -> str | None:
    """Return ``text`` without comments and docstrings; a docstring that is the whole body becomes ``pass``."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    replacements = find_python_comments(text)
    if replacements is None:
        return None
    stripped = _apply(text, replacements)
    return stripped if _parses(stripped) else None


def find_python_comments(text: str) -> list[Replacement] | None:
    """Find replacements that remove comments and docstrings; None if ``text`` is not Python.

    ``text`` must not contain carriage returns.
    """
    try:
        tree = _parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (*NOT_PYTHON, tokenize.TokenError):
        return None
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def position(line: int, column: int) -> int:
        """Return the character at ``column``, which the syntax tree counts in UTF-8 bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    replacements: list[Replacement] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            end = position(doc.end_lineno or doc.lineno, doc.end_col_offset or doc.col_offset)
            needed = len(node.body) == 1 and not isinstance(node, ast.Module)
            replacements.append((position(doc.lineno, doc.col_offset), end, "pass" if needed else ""))
    docstrings = list(replacements)
    for token in tokens:
        first = starts[token.start[0] - 1] + token.start[1]
        inside = any(start <= first < end for start, end, _ in docstrings)  # a comment between parts of a docstring
        if token.type == tokenize.COMMENT and not inside:
            replacements.append((first, first + len(token.string), ""))
    return replacements


def strip_yaml_comments(text: str) -> str | None:
    """Return ``text`` without the lines that contain only a comment."""
    import yaml

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if any(char in text for char in "\x85\u2028\u2029"):  # line breaks in YAML, but not in the code below
        return None
    try:
        tokens = list(yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError):
        return None
    inside: set[int] = set()  # lines that begin within a scalar
    for token in tokens:
        if isinstance(token, yaml.ScalarToken):
            inside.update(range(token.start_mark.line + 1, token.end_mark.line + (token.end_mark.column > 0)))
    lines = text.split("\n")
    remaining = [line for number, line in enumerate(lines) if number in inside or not line.lstrip().startswith("#")]
    return "\n".join(remaining)


def _parse(text: str) -> ast.Module:
    """Parse ``text`` without warnings about invalid escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _parses(text: str) -> bool:
    try:
        _parse(text)
    except NOT_PYTHON:
        return False
    return True


def _apply(text: str, replacements: Iterable[Replacement]) -> str:
    """Apply replacements from last to first, and remove lines that become empty."""
    for start, end, new_text in sorted(replacements, reverse=True):
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        before, after = text[line_start:start], text[end:line_end]
        if after.strip():  # a statement follows on the same line
            new_text = "pass"
        elif not new_text and before.strip():
            start, end = line_start + len(before.rstrip()), line_end
        elif not new_text:  # a line that continues the previous line must remain
            continues = text.endswith("\\\n", 0, line_start)
            start, end = line_start, line_end if continues else min(line_end + 1, len(text))
        text = splice(text, [(start, end, new_text)])
    return text


FILTERS: dict[str, Filter] = {
    "python-comments": strip_python_comments,
    "yaml-comments": strip_yaml_comments,
}
