"""The error model of typing errors."""

from math import exp, isfinite

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import CORRUPT
from conservator.channels.typing_errors import WORD, load_typing_errors, match_case, neighbours

ERRORS = load_typing_errors()
WORDS = st.text("abcdefghijklmnopqrstuvwxyzäéж", min_size=1, max_size=9)


@given(WORDS, WORDS)
def test_a_path_of_edits_leads_from_the_clean_to_the_observed_word(clean, observed):
    log_prob, edits = ERRORS.path(clean, observed)
    if not isfinite(log_prob):
        assert abs(len(clean) - len(observed)) > 3
        return
    result, done = "", 0
    for start, begin, size, width, kind in edits:
        result += clean[done:start] + observed[begin : begin + width]
        done = start + size
        assert kind in ERRORS.kinds
    assert result + clean[done:] == observed


@pytest.mark.parametrize(
    ("clean", "observed", "kind"),
    [
        ("the", "teh", "transpose"),
        ("gewaschen", "gwaschen", "drop"),
        ("acheté", "achetté", "double"),
        ("letter", "leter", "undouble"),
        ("house", "hpuse", "substitute"),
        ("word", "wored", "insert"),
        ("phrase", "frase", "group"),
    ],
)
def test_each_kind_of_edit_is_one_error(clean, observed, kind):
    _, edits = ERRORS.path(clean, observed)
    assert [edit[4] for edit in edits] == [kind]


def test_more_errors_are_less_probable():
    assert ERRORS.log_prob("morning", "mornign") > ERRORS.log_prob("morning", "mronign")


def test_a_neighbouring_key_is_more_probable_than_a_distant_one():
    assert "o" in neighbours("i")
    assert ERRORS.log_prob("thing", "thong") > ERRORS.log_prob("thing", "thxng")


def test_probabilities_are_normalised():
    assert sum(ERRORS.kinds.values()) <= 1
    for groups in (ERRORS.kinds, ERRORS.doubled, ERRORS.dropped, ERRORS.transposed):
        assert all(value > 0 for value in groups.values())
    for letter in "abcdefghijklmnopqrstuvwxyz":
        total = sum(ERRORS.substitution(letter, other) for other in "abcdefghijklmnopqrstuvwxyz" if other != letter)
        assert total <= 1.01
    assert exp(ERRORS.log_prob("the", "teh")) < 1


@given(st.text(max_size=60), st.floats(0, 1), st.integers(0, 5))
def test_only_words_are_damaged(text, rate, seed):
    damaged = CORRUPT["typing"](text, rate, np.random.default_rng(seed))
    assert damaged == CORRUPT["typing"](text, rate, np.random.default_rng(seed))
    if rate == 0 or not any(len(word) >= 2 for word in WORD.findall(text)):
        assert damaged == text


def test_the_rate_is_the_share_of_words_with_an_error():
    words = ["the", "morning", "harbour", "between", "another", "question"] * 200
    damaged = CORRUPT["typing"](" ".join(words), 0.2, np.random.default_rng(0)).split(" ")
    wrong = sum(word not in set(words) for word in damaged)
    assert 0.15 < wrong / len(words) < 0.25


@given(WORDS)
def test_case_follows_the_pattern(word):
    assert match_case(word, "Teh") == word[:1].upper() + word[1:].lower()
    assert match_case(word, "TEH") == word.upper()
    assert match_case(word, "teh") == word
