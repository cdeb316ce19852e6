"""Indentation from boxes: found on monospaced pages only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.pages import Box, Line, Page, Transcript, Word, add_indentation

LINES = [0, 4, 8, 8, 4, 0, 2, 3, 12, 0]
WORDS = ["def", "of_that", "x", "=", "return"]


def lay_out(indents, pitch, skew=0.0, widths=None):
    """A page of lines of monospaced words, or of words of characters with these widths."""
    lines = []
    for row, indent in enumerate(indents):
        words, left = [], 50 + indent * pitch
        for position in range(4):
            text = WORDS[(row + position) % len(WORDS)]
            size = (
                pitch * len(text) if widths is None else sum(widths[ord(character) % len(widths)] for character in text)
            )
            top = 30.0 * row
            box = Box(left - skew * top, top + skew * left, left + size - skew * top, top + 20 + skew * left)
            words.append(Word(text, None, box))
            left += size + pitch
        lines.append(Line(tuple(words)))
    return Transcript("hOCR", None, "pixel", (Page(tuple(lines)),), b"", None)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=24, max_size=40), st.floats(5, 30), st.floats(-0.02, 0.02))
def test_indentation_is_found(indents, pitch, skew):
    indents = [0, 0, *indents]
    page = lay_out(indents, pitch, skew)
    lines = add_indentation(page, page.text).split("\n")[:-1]
    assert [len(line) - len(line.lstrip()) for line in lines] == indents
    assert [line.lstrip() for line in lines] == page.text.split("\n")[:-1]


def test_a_corrected_line_keeps_its_indentation():
    page = lay_out(LINES * 3, 10.0)
    assert add_indentation(page, page.text.replace("def", "of")).split("\n")[1].startswith("    of_that")


@pytest.mark.parametrize(
    "page",
    [
        lay_out(LINES * 3, 10.0, widths=np.array([3.0, 9.0, 14.0, 6.0])),
        lay_out(LINES, 10.0),
        Transcript("TSV", None, "pixel", (Page((Line((Word("a"), Word("b"))),) * 30),), b"", None),
        lay_out(LINES * 3, 0.0),
    ],
)
def test_pages_that_are_not_monospaced_get_no_indentation(page):
    assert add_indentation(page, page.text) == page.text
