"""Comparing documents: the edit distance, in a time that does not grow with its square."""

from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import compare, compare_documents


def edit_distance(one, other):
    """The table, row by row."""
    row = list(range(len(other) + 1))
    for line, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], line
        for column, sign in enumerate(other, 1):
            cost = min(row[column] + 1, row[column - 1] + 1, diagonal + (letter != sign))
            diagonal, row[column] = row[column], cost
    return row[-1]


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), max_size=30))
def test_character_errors_are_the_edit_distance(letters):
    original, restored, damaged = ("".join(part) for part in zip(*letters, strict=True)) if letters else ("", "", "")
    found = compare_documents(original.encode(), restored.encode(), damaged.encode())
    spans = runs_of(original, restored)
    expected = sum(edit_distance(original[start:stop], restored[start:stop]) for start, stop in spans)
    assert found.character_errors == expected


def runs_of(one, other):
    """The ranges in which two texts differ."""
    start = None
    for place in range(len(one) + 1):
        differs = place < len(one) and one[place] != other[place]
        if differs and start is None:
            start = place
        if not differs and start is not None:
            yield start, place
            start = None


def test_long_stretches_that_differ_are_aligned_in_parts(monkeypatch):
    monkeypatch.setattr(compare, "LONGEST", 10)
    original, restored = "é" * 30 + "x", "ab" * 30 + "x"  # no part may begin inside a character
    found = compare_documents(original.encode(), restored.encode(), restored.encode())
    assert found.character_errors == 60  # each é is two others
    parts = list(compare._parts(0, 25, [False] * 25))
    assert parts == [(0, 10), (10, 20), (20, 25)]
    inside = [place % 2 == 0 for place in range(25)]
    assert list(compare._parts(0, 25, inside)) == [(0, 11), (11, 21), (21, 25)]
    assert list(compare._parts(0, 25, [True] * 25)) == parts  # no UTF-8: anywhere


def test_stretches_that_are_shorter_are_exact(monkeypatch):
    original, restored = "abcdefgh", "bcdefgha"
    assert compare_documents(original.encode(), restored.encode(), restored.encode()).character_errors == 2
    monkeypatch.setattr(compare, "LONGEST", 4)
    assert compare_documents(original.encode(), restored.encode(), restored.encode()).character_errors == 4
