"""Filters that remove comments from training texts, so that one domain contains little of another (appendix "Data").

They use the language's own tokenizer, so that a ``#`` inside a string or a script stays. Each returns None for a text
that is not of its language.
"""

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterable

Filter = Callable[[str], str | None]
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
Cut = tuple[int, int, str]  # the start and the stop of a range of characters, and the text that replaces it


def strip_python_comments(text: str) -> str | None:
    """Return ``text`` without comments and docstrings; a docstring that is the whole body becomes ``pass``."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    cuts = find_python_comments(text)
    if cuts is None:
        return None
    stripped = _apply(text, cuts)
    return stripped if _parses(stripped) else None


def find_python_comments(text: str) -> list[Cut] | None:
    """The cuts that remove comments and docstrings from ``text``, which has no carriage returns; None if not Python."""
    try:
        tree = _parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (*NOT_PYTHON, tokenize.TokenError):
        return None
    lines = text.split("\n")
    starts = _line_starts(lines)

    def place(line: int, column: int) -> int:
        """The character at ``column``, which the syntax tree counts in bytes of UTF-8."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    cuts: list[Cut] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            doc = node.body[0]
            end = place(doc.end_lineno or doc.lineno, doc.end_col_offset or doc.col_offset)
            needed = len(node.body) == 1 and not isinstance(node, ast.Module)
            cuts.append((place(doc.lineno, doc.col_offset), end, "pass" if needed else ""))
    docstrings = list(cuts)
    for token in tokens:
        first = starts[token.start[0] - 1] + token.start[1]
        inside = any(start <= first < end for start, end, _ in docstrings)  # a comment between parts of a docstring
        if token.type == tokenize.COMMENT and not inside:
            cuts.append((first, first + len(token.string), ""))
    return cuts


def strip_yaml_comments(text: str) -> str | None:
    """Return ``text`` without the lines that contain only a comment."""
    import yaml

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if any(mark in text for mark in "\x85\u2028\u2029"):  # YAML takes these for line breaks; the code below does not
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
    kept = [line for place, line in enumerate(lines) if place in inside or not line.lstrip().startswith("#")]
    return "\n".join(kept)


def _parse(text: str) -> ast.Module:
    """The syntax tree, without warnings about invalid escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _parses(text: str) -> bool:
    try:
        _parse(text)
    except NOT_PYTHON:
        return False
    return True


def _line_starts(lines: Iterable[str]) -> list[int]:
    """The place of the first character of each line."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _apply(text: str, cuts: Iterable[Cut]) -> str:
    """Apply the ``cuts``, last first; a line that contained nothing else is removed."""
    for start, end, instead in sorted(cuts, reverse=True):
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        before, after = text[line_start:start], text[end:line_end]
        if after.strip():  # a statement follows on the line
            text = text[:start] + "pass" + text[end:]
        elif instead:
            text = text[:start] + instead + text[end:]
        elif before.strip():
            text = text[:line_start] + before.rstrip() + text[line_end:]
        elif text[:line_start].endswith("\\\n"):  # the line before is continued here, so this line has to stay
            text = text[:line_start] + text[line_end:]
        else:
            text = text[:line_start] + text[line_end + 1 :]
    return text


FILTERS: dict[str, Filter] = {
    "python-comments": strip_python_comments,
    "yaml-comments": strip_yaml_comments,
}
