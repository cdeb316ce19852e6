"""Where the code blocks of a Markdown document stand (appendix "Data", "Real documents")."""

import re

from markdown_it import MarkdownIt

Span = tuple[int, int]

BLOCKS = ("fence", "code_block")  # between fences, and indented by four blanks
_PARSER = MarkdownIt("commonmark").disable("inline")  # which lines are code does not depend on marks within lines
_LINE_END = re.compile(r"\r\n|\r|\n")


def code_spans(text: bytes | str) -> list[Span]:
    """The spans of code blocks, sorted and disjoint, in bytes of ``bytes`` and in characters of a ``str``.

    A block is whole lines: those of its fences, and what stands before the code in lists and quotations, included.
    Blocks are found by the rules of CommonMark: a fence that is not closed goes to the end of what it stands in, and
    lines indented by four blanks are code, too. Code in HTML is not found.
    """
    if isinstance(text, bytes):
        source, units = text.decode(errors="replace"), text.decode("latin-1")  # a character for each byte
    else:
        source = units = text
    edges = [0, *(found.end() for found in _LINE_END.finditer(units)), len(units)]
    lines = [token.map for token in _PARSER.parse(source) if token.type in BLOCKS and token.map]
    return [(edges[start], edges[min(stop, len(edges) - 1)]) for start, stop in lines]
