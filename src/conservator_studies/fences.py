"""Spans of code blocks in Markdown documents (appendix "Data", "Real documents")."""

import re

from markdown_it import MarkdownIt

Span = tuple[int, int]

BLOCKS = ("fence", "code_block")  # fenced, and indented by four spaces
_PARSER = MarkdownIt("commonmark").disable("inline")  # inline markup does not affect code blocks
_LINE_END = re.compile(r"\r\n|\r|\n")


def code_spans(text: bytes | str) -> list[Span]:
    """Find the spans of code blocks, sorted and disjoint: in bytes for ``bytes``, in characters for ``str``.

    A block consists of complete lines, including its fences and the prefixes of lists and quotations. The rules are
    those of CommonMark: an unclosed fence extends to the end of its container, and lines indented by four spaces are
    code. Code in HTML is not detected.
    """
    if isinstance(text, bytes):
        source, units = text.decode(errors="replace"), text.decode("latin-1")  # one character per byte
    else:
        source = units = text
    edges = [0, *(match.end() for match in _LINE_END.finditer(units)), len(units)]
    lines = [token.map for token in _PARSER.parse(source) if token.type in BLOCKS and token.map]
    return [(edges[start], edges[min(stop, len(edges) - 1)]) for start, stop in lines]
