"""Errors of a reading: probabilities, and their estimates from counts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.alignment import ReadingErrors, find_events
from conservator.documents import GAP_SYMBOL

COUNTS = st.dictionaries(
    st.tuples(st.sampled_from("abé1 "), st.sampled_from(["a", "b", "é", "1", " ", ""])), st.integers(0, 1000)
)
LOST = "\uffff"


@given(COUNTS, st.text("abé1 ", min_size=1, max_size=5), st.text("abé1 ", max_size=5))
def test_scores_are_log_probabilities(counts, clean, observed):
    errors = ReadingErrors(Counter(counts))
    assert errors.score(observed, clean) < 0
    assert errors.score(observed, clean) <= errors.score(clean, clean) or counts


def test_an_unchanged_character_is_most_probable():
    errors = ReadingErrors(Counter({("a", "a"): 1000, ("b", "b"): 1000}))
    assert errors.score("ab", "ab") > errors.score("aa", "ab")
    assert errors.score("ab", "ab") > errors.score("a", "ab")
    assert errors.score("ab", "ab") > errors.score("abb", "ab")


def test_frequent_errors_are_more_probable():
    rare = ReadingErrors(Counter({("e", "e"): 1000, ("e", "c"): 1}))
    frequent = ReadingErrors(Counter({("e", "e"): 1000, ("e", "c"): 100}))
    assert frequent.score("c", "e") > rare.score("c", "e") + 1
    assert frequent.score("c", "e") > frequent.score("o", "e") + 1


def test_all_confusions_of_digits_are_equally_probable():
    errors = ReadingErrors(Counter({("3", "3"): 100, ("3", "5"): 50}))
    assert errors.score("5", "3") == pytest.approx(errors.score("8", "3"))


def test_marks_and_gaps_are_no_evidence():
    errors = ReadingErrors(Counter({("a", "a"): 100}))
    assert errors.score(LOST, "a") == errors.score(LOST, "b") == 0
    assert errors.score(GAP_SYMBOL, "any text") == 0


def test_a_run_of_insertions_costs_less_than_single_ones():
    errors = ReadingErrors(Counter({("a", "a"): 1000}))
    assert errors.score("axx", "a") > 2 * errors.score("ax", "a") - errors.score("a", "a")
    assert list(find_events("ab", "b")) == [("a", ""), ("b", "b")]
