"""Restoration of letter case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import CORRUPT
from conservator.experts.letter_case import case_words, lower, upper
from conservator.experts.letter_case.features import COUNT, SIZE, features, state_features
from conservator.pipelines.visible_text.case_lattice import Rates, compare

TEXT = (
    "The President of the United States went to London on Monday. He met the Queen, and John Smith wrote about it in "
    "the Times. Nobody in England had seen him since December. They talked about the war in France.\n"
)
GERMAN = (
    "Der Kapitän hatte das Schiff in der Nacht verlassen. Die Frauen des Dorfes warteten auf eine Nachricht aus "
    "Hamburg. Am Morgen kam ein Brief, und die Kinder liefen zum Hafen.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


@pytest.mark.parametrize("text", [TEXT, GERMAN, f"{TEXT}CHAPTER ONE\n\n{TEXT}", "import os\nfrom a import b\n" * 9])
def test_undamaged_text_stays(restorer, text):
    assert restorer.restore(text.encode(), channel="case").text == text


@pytest.mark.parametrize("text", [TEXT, GERMAN])
@pytest.mark.parametrize("damage", [str.lower, str.upper, str.swapcase])
def test_letter_case_is_restored(restorer, text, damage):
    words = restorer.restore(damage(text).encode(), channel="case").text.split()
    correct = sum(first == second for first, second in zip(words, text.split(), strict=True))
    assert correct >= 0.9 * len(words)


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1), st.integers(0, 100))
def test_only_the_case_of_letters_changes(restorer, rate, seed):
    damaged = CORRUPT["case"](TEXT, rate, np.random.default_rng(seed))
    assert restorer.restore(damaged.encode(), channel="case").text.lower() == TEXT.lower() == damaged.lower()


@given(st.text())
def test_small_letters_keep_the_length(text):
    for language in ("", "tr"):
        assert len(lower(text, language)) == len(text)
    assert all(len(upper(character)) == 1 for character in text)


def test_turkish_letters():
    assert lower("\u0130Ii\u0131", "tr") == "i\u0131i\u0131"
    assert upper("i", "tr") == "\u0130"
    assert upper("\u0131", "tr") == "I"
    assert upper("ß") == "ß"


def test_features_are_hashed():
    words = case_words("A day. The end")
    base = features([text.lower() for text in ("A", "day", "The", "end")], [word.gap for word in words], "en")
    assert base.shape == (4, COUNT)
    states = state_features(base)
    assert states.shape[:2] == (4, 2)
    assert 0 <= min(base.min(), states.min()) <= max(base.max(), states.max()) < SIZE


def test_letters_are_compared():
    assert compare("NASA", "Nasa") == [3, 1, 0, 0]
    assert compare("Nasa", "NASA") == [0, 1, 3, 0]
    assert np.isclose(np.exp(Rates(0.25, 0.5).logs), [0.25, 0.75, 0.5, 0.5]).all()
