"""Alignment of readings: the segments and the text between them are the readings."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from conservator.alignment import Segment, align_readings, find_differences, readings

TEXT = st.text("ab c", max_size=40)


def rebuild(base, segments, reading):
    parts, done = [], 0
    for segment in segments:
        parts += [base[done : segment.start], segment.texts[reading]]
        done = segment.stop
    return "".join([*parts, base[done:]])


@given(TEXT, st.lists(TEXT, max_size=3))
def test_segments_contain_all_differences(base, others):
    segments = align_readings(base, others)
    assert [rebuild(base, segments, number) for number in range(1 + len(others))] == [base, *others]
    assert all(len(set(segment.texts)) > 1 for segment in segments)
    assert all(first.stop < second.start for first, second in pairwise(segments))


@given(TEXT)
def test_equal_readings_have_no_segments(text):
    assert align_readings(text, [text, text]) == []


@given(TEXT, TEXT)
def test_a_short_text_is_aligned_with_the_fewest_edits(first, second):
    edits = sum(
        Levenshtein.distance(first[item.start : item.stop], second[item.other_start : item.other_stop])
        for item in find_differences(first, second)
    )
    assert edits == Levenshtein.distance(first, second)


@given(st.text("abcdefgh ", max_size=300), st.lists(st.integers(0, 299), max_size=10))
def test_anchors_do_not_lose_text(first, positions):
    second = "".join(character for position, character in enumerate(first) if position not in positions)
    with patch.object(readings, "EXACT_CHARS", 20), patch.object(readings, "ANCHOR_CHARS", (8, 4)):
        segments = align_readings(first, [second])
    assert rebuild(first, segments, 1) == second


def test_lost_symbols_do_not_correspond():
    first, second = "t\uffff\uffffal", "tr\uffff\uffffl"
    assert align_readings(first, [second]) == [Segment(1, 4, (first[1:4], second[1:4]))]
    assert align_readings(first, [first]) == []


def test_shifted_lost_symbols_are_columns():
    assert align_readings("nom\uffffe", ["no\uffffme"]) == [Segment(2, 4, ("m\uffff", "\uffffm"))]


def test_an_insertion_is_an_empty_range_of_the_base():
    assert align_readings("a cat", ["a black cat", "a cat"]) == [Segment(2, 2, ("", "black ", ""))]
