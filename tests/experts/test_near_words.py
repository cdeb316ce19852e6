"""Words of a list near a given word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from conservator.experts.word_ngram.neighbours import NearWords, letter_set, load_near_words, rare_share

WORDS = st.text("abcdeéж", min_size=1, max_size=7)
LIST = NearWords(
    ["walk", "walks", "walked", "talk", "talks", "talked", "jump", "jumps", "house", "un", "unlike", "like"]
)


@given(st.lists(WORDS, max_size=20), WORDS, st.integers(1, 2))
def test_all_words_within_the_distance_are_near(words, word, max_edits):
    expected = {other: OSA.distance(word, other) for other in words}
    expected = {other: distance for other, distance in expected.items() if 1 <= distance <= max_edits}
    assert dict(NearWords(words).find(word, max_edits)) == expected


@given(WORDS, WORDS)
def test_an_edit_changes_at_most_two_letters_of_the_set(first, second):
    changed = (letter_set(first) ^ letter_set(second)).bit_count()
    assert changed <= 2 * OSA.distance(first, second)


def test_an_ending_is_productive_if_other_words_have_it():
    assert LIST.derivation_rate("walk", "walkes") == 0
    assert 0 < LIST.derivation_rate("jump", "jumps") < LIST.derivation_rate("walk", "walks") < 1
    assert LIST.derivation_rate("un", "uns") == 0  # the stem is too short


def test_letters_of_words_are_more_probable_than_other_letters():
    words = ["walk", "kwal"]
    log_probs = LIST.spelling_log_probs(words)
    assert log_probs[0] > log_probs[1]
    assert np.allclose(log_probs, [LIST.spelling_log_probs([word])[0] for word in words])


def test_first_parts_are_shares():
    index = load_near_words("de")
    assert sum(index.first_parts.values()) == pytest.approx(1)
    assert "ge" in index.first_parts
    assert index is load_near_words("de")


def test_small_lists_have_more_unknown_words():
    assert 0 < rare_share("en") < rare_share("de") < rare_share("fi") < 1
