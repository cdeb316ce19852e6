"""Where the code blocks of a Markdown document stand (appendix "Data", "Real documents")."""

import re

from markdown_it import MarkdownIt

Span = tuple[int, int]

BLOCKS = ("fence", "code_block")  # fenced, and indented by four blanks
_PARSER = MarkdownIt("commonmark").disable("inline")  # which lines are code does not depend on what stands in the others
_LINE_END = r"\r\n|\r|\n"


def code_spans(text: bytes | str) -> list[Span]:
    """The spans of code blocks, sorted and disjoint, in bytes of ``bytes`` and in characters of a ``str``.

    A block is whole lines: those of its fences, and what stands before the code in lists and quotations, included.
    Blocks are found by the rules of CommonMark: a fence that is not closed goes to the end of what it stands in, and
    lines indented by four blanks are code, too. Code in HTML is not found.
    """
    if isinstance(text, bytes):
        source, ends = text.decode(errors="replace"), re.finditer(_LINE_END.encode(), text)
    else:
        source, ends = text, re.finditer(_LINE_END, text)
    edges = [0, *(found.end() for found in ends), len(text)]
    lines = [token.map for token in _PARSER.parse(source) if token.type in BLOCKS and token.map]
    return [(edges[start], edges[min(stop, len(edges) - 1)]) for start, stop in lines]
