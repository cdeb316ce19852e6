"""Indentation from boxes: on pages whose characters are equally wide, and on no others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.pages import Box, Line, Page, Transcript, Word, indented

LINES = [0, 4, 8, 8, 4, 0, 2, 3, 12, 0]
WORDS = ["def", "of_that", "x", "=", "return"]


def lay_out(indents, pitch, slant=0.0, widths=None):
    """A page of lines with words of equally wide characters, or of characters with these widths."""
    lines = []
    for row, indent in enumerate(indents):
        words, left = [], 50 + indent * pitch
        for turn in range(4):
            text = WORDS[(row + turn) % len(WORDS)]
            size = pitch * len(text) if widths is None else sum(widths[ord(one) % len(widths)] for one in text)
            top = 30.0 * row
            box = Box(left - slant * top, top + slant * left, left + size - slant * top, top + 20 + slant * left)
            words.append(Word(text, None, box))
            left += size + pitch
        lines.append(Line(tuple(words)))
    return Transcript("hOCR", None, None, "pixel", (Page(tuple(lines)),), b"", None)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=24, max_size=40), st.floats(5, 30), st.floats(-0.02, 0.02))
def test_blanks_before_lines_come_back(indents, pitch, slant):
    indents = [0, 0, *indents]
    page = lay_out(indents, pitch, slant)
    lines = indented(page, page.text).split("\n")[:-1]
    assert [len(line) - len(line.lstrip()) for line in lines] == indents
    assert [line.lstrip() for line in lines] == page.text.split("\n")[:-1]


def test_a_corrected_line_is_indented_like_the_one_it_was():
    page = lay_out(LINES * 3, 10.0)
    assert indented(page, page.text.replace("def", "of")).split("\n")[1].startswith("    of_that")


@pytest.mark.parametrize(
    "page",
    [
        lay_out(LINES * 3, 10.0, widths=np.array([3.0, 9.0, 14.0, 6.0])),
        lay_out(LINES, 10.0),
        Transcript("TSV", None, None, "pixel", (Page((Line((Word("a"), Word("b"))),) * 30),), b"", None),
        lay_out(LINES * 3, 0.0),
    ],
)
def test_other_pages_stay_as_they_are(page):
    assert indented(page, page.text) == page.text
