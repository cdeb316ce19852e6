"""Comparison of documents: the edit distance, without quadratic time."""

from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import compare, compare_documents


def edit_distance(first, second):
    """Compute the dynamic programming table row by row."""
    row = list(range(len(second) + 1))
    for line, letter in enumerate(first, 1):
        diagonal, row[0] = row[0], line
        for column, other in enumerate(second, 1):
            cost = min(row[column] + 1, row[column - 1] + 1, diagonal + (letter != other))
            diagonal, row[column] = row[column], cost
    return row[-1]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), max_size=30))
def test_character_errors_are_the_edit_distance(letters):
    original, restored, damaged = ("".join(part) for part in zip(*letters, strict=True)) if letters else ("", "", "")
    comparison = compare_documents(original.encode(), restored.encode(), damaged.encode())
    spans = runs_of(original, restored)
    expected = sum(edit_distance(original[start:stop], restored[start:stop]) for start, stop in spans)
    assert comparison.character_errors == expected


def runs_of(first, second):
    """Yield the spans in which two texts differ."""
    start = None
    for position in range(len(first) + 1):
        differs = position < len(first) and first[position] != second[position]
        if differs and start is None:
            start = position
        if not differs and start is not None:
            yield start, position
            start = None


def test_long_differing_spans_are_aligned_in_chunks(monkeypatch):
    monkeypatch.setattr(compare, "MAX_ALIGNED_BYTES", 10)
    original, restored = "é" * 30 + "x", "ab" * 30 + "x"  # no chunk may start inside a character
    comparison = compare_documents(original.encode(), restored.encode(), restored.encode())
    assert comparison.character_errors == 60  # each é becomes two other characters
    chunks = list(compare._chunks(0, 25, [False] * 25))
    assert chunks == [(0, 10), (10, 20), (20, 25)]
    continues = [position % 2 == 0 for position in range(25)]
    assert list(compare._chunks(0, 25, continues)) == [(0, 11), (11, 21), (21, 25)]
    assert list(compare._chunks(0, 25, [True] * 25)) == chunks  # not UTF-8: any boundary is allowed


def test_short_spans_are_aligned_exactly(monkeypatch):
    original, restored = "abcdefgh", "bcdefgha"
    assert compare_documents(original.encode(), restored.encode(), restored.encode()).character_errors == 2
    monkeypatch.setattr(compare, "MAX_ALIGNED_BYTES", 4)
    assert compare_documents(original.encode(), restored.encode(), restored.encode()).character_errors == 4
