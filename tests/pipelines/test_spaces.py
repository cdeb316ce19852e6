"""Missing and inserted spaces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import CORRUPT
from conservator.experts.word_ngram.gaps import count_gaps, load_gap_shares, split_units
from conservator.experts.word_ngram.unspaced import identify_unspaced_languages
from conservator.pipelines.visible_text.space_lattice import Characters

TEXT = (
    "The harbour was quiet in the morning, and the boats lay close to the old stone wall. Nobody had seen the captain "
    "since the night of the storm, and the women of the village waited for news.\n\nIn the evening the wind came.\n"
)
GERMAN = (
    "Der Hafen war am Morgen ruhig, und die Boote lagen nahe an der alten Mauer. Niemand hatte den Kapitän seit der "
    "Nacht gesehen, und die Frauen des Dorfes warteten auf Nachrichten über das Bundesverfassungsgericht.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


@pytest.mark.parametrize(
    "text", [TEXT, GERMAN, "日本語の文章には空白がありません。東京は大きいです。\n" * 3, "x = foo(a,b)\n"]
)
def test_undamaged_text_stays(restorer, text):
    assert restorer.restore(text.encode(), channel="spaces").text == text


def test_a_text_without_spaces_is_divided_into_words(restorer):
    result = restorer.restore(TEXT.replace(" ", "").encode(), channel="spaces")
    assert abs(len(result.text) - len(TEXT)) <= 1
    assert sum(word in TEXT.split() for word in result.text.split()) >= len(TEXT.split()) - 2
    assert "en" in result.experts


def test_missing_and_inserted_spaces_are_restored(restorer):
    damaged = (
        TEXT.replace("the morning", "themorning").replace("village", "vil lage").replace("stone wall", "stonewall")
    )
    damaged = damaged.replace("close to", "close  to").replace("had seen", "hadseen")
    assert restorer.restore(damaged.encode(), channel="spaces").text == TEXT


def test_letter_spaced_text_is_joined(restorer):
    spaced = " ".join(TEXT.split("\n")[0].replace(" ", "  "))
    assert restorer.restore(spaced.encode(), channel="spaces").text == TEXT.split("\n")[0]


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1), st.integers(0, 100))
def test_only_spaces_change(restorer, rate, seed):
    damaged = CORRUPT["spaces"](TEXT, rate, np.random.default_rng(seed))
    assert damaged.replace(" ", "") == TEXT.replace(" ", "")
    assert restorer.restore(damaged.encode(), channel="spaces").text.replace(" ", "") == TEXT.replace(" ", "")


@given(st.text())
def test_units_cover_a_text(text):
    units = split_units(text)
    assert [unit.start for unit in units] == [0, *(unit.stop for unit in units)][: len(units)]
    assert "".join(text[unit.start : unit.stop] for unit in units) == text
    count_gaps(text, {})


@given(st.text(alphabet="ab .\n\t"))
def test_characters_know_their_positions(text):
    characters = Characters.of(text)
    assert characters.text == text.replace(" ", "")
    assert all(
        text[position] == character for position, character in zip(characters.positions, characters.text, strict=True)
    )


def test_spaces_beside_punctuation():
    english, french = load_gap_shares("en"), load_gap_shares("fr")
    assert english.space("L", ",") < 0.01 < 0.99 < english.space(",", "L")
    assert english.space("L", ":") < 0.1 < 0.5 < french.space("L", ":")
    assert english.suffixes["th"] > english.suffixes.get("years", 0.0)


def test_the_language_of_a_text_without_spaces():
    for language, text in (("en", TEXT), ("de", GERMAN)):
        languages = identify_unspaced_languages(text.replace(" ", ""))
        assert max(languages, key=lambda name: languages[name]) == language
    assert identify_unspaced_languages("日本語の文章") == {}
