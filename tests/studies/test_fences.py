"""Spans of code blocks in Markdown documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator_studies.fences import code_spans

FRAGMENTS = [
    "```",
    "~~~",
    "````",
    "\n",
    "\n\n",
    "    ",
    "- ",
    "> ",
    "py",
    "text é",
    "\r\n",
    "\r",
    "\t",
    "<pre>",
    "\x0c",
    "\u2028",
]
DOCUMENTS = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)
BLOCKS = st.sampled_from(
    [
        *("```\ncode\n```\n", "~~~ sh\n```\n~~~\n", "````md\n```\n````\n", "   ```py\nx\n\ny\n```   \n", "```\n```\n"),
        "~~~~ a `b`\n~~~\n~~~~~~\n",
    ]
)


def blocks(document):
    return [document[start:stop] for start, stop in code_spans(document)]


@given(inserted=st.lists(BLOCKS, max_size=6))
def test_inserted_blocks_are_found(inserted):
    assert blocks("Text `x`.\n\n" + "More.\n".join(inserted) + "\nEnd") == inserted


@given(document=DOCUMENTS)
def test_spans_are_sorted_disjoint_and_complete_lines(document):
    spans = code_spans(document)
    edges = [0, *(edge for span in spans for edge in span), len(document)]
    assert edges == sorted(edges)
    assert all(edge in (0, len(document)) or document[edge - 1] in "\r\n" for edge in edges)
    assert all(start < stop for start, stop in spans)


@given(document=DOCUMENTS)
def test_bytes_and_characters_agree(document):
    offsets = [len(document[:index].encode()) for index in range(len(document) + 1)]
    assert code_spans(document.encode()) == [(offsets[start], offsets[stop]) for start, stop in code_spans(document)]


@given(document=st.text(st.characters(exclude_characters="`~\t ")))
def test_there_is_no_code_without_fences_and_spaces(document):
    assert code_spans(document) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("a\n```py\nb\n\nc", ["```py\nb\n\nc"]),
        ("a\n``` x`y\nb\n", []),
        ("`` `\n", []),
        ("- a\n\n  ```\n  b\n  ```\n\nc\n", ["  ```\n  b\n  ```\n"]),
        ("1. ```\n   b\n   ```\n", ["1. ```\n   b\n   ```\n"]),
        ("> ```\n> a\nb\n", ["> ```\n> a\n"]),
        ("a\n\n    b\n\n    c\n\nd\n", ["    b\n\n    c\n"]),
        ("a\n    b\n", []),
        ("<pre>\n```\n</pre>\n", []),
        ("", []),
    ],
)
def test_the_rules_of_commonmark(document, expected):
    assert blocks(document) == expected


def test_invalid_utf_8_is_accepted():
    assert code_spans(b"\xff\n```\n\xe9\n```\n") == [(2, 12)]
