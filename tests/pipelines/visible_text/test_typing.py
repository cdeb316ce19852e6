"""Correction of typing errors."""

import pytest

from conservator import Restorer

CLEAN = (
    "The harbour was quiet in the morning, and the boats lay close to the old stone wall. Nobody had seen the captain "
    "since the storm, but the letters that he wrote to his brother were still on the table in the small house.\n"
)


@pytest.fixture(scope="module")
def restorer():
    return Restorer()


def restore(restorer, text, **options):
    return restorer.restore(text.encode(), channel="typing", **options).text


@pytest.mark.parametrize(
    ("damaged", "clean"),
    [
        ("teh quick borwn fox jumps over the lazy dog", "the quick brown fox jumps over the lazy dog"),
        ("Questo è un tseto con alcnui errori di battitura.", "Questo è un testo con alcuni errori di battitura."),
        ("Dit is een korte teskt met een paar woorden.", "Dit is een korte tekst met een paar woorden."),
        ("Я вчера видел новую мшаину и поехал домой.", "Я вчера видел новую машину и поехал домой."),
    ],
)
def test_short_texts_are_corrected(restorer, damaged, clean):
    assert restore(restorer, damaged) == clean


def test_clean_text_is_unchanged(restorer):
    assert restore(restorer, CLEAN) == CLEAN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "qwrt zxcv bnmk",  # no language
        "Tlön, Uqbar and Tlön are in the third volume, which is on the table.",  # names
        "Call `teh_fucntion` or see https://example.org/teh/fucntion for more about the answer in this case.",
        "```\nteh fucntion\n```\nThis is the output of the program, and it is not what we wanted to see here.",
        "The value of teh_count is 3, and the variable x1y in foo.teh() is not used in this part of the program.",
        "The mark zqx stands for zqx, and zqx is what we said it is: the one that we have seen in the text.",
    ],
)
def test_other_text_is_left_alone(restorer, text):
    assert restore(restorer, text) == text


@pytest.mark.parametrize(("observed", "clean"), [("teh", "the"), ("Teh", "The")])
def test_case_and_punctuation_stay(restorer, observed, clean):
    damaged = f"{CLEAN}({observed} boats lay close.)"
    assert restore(restorer, damaged).endswith(f"({clean} boats lay close.)")


def test_edits_are_words_with_alternatives(restorer):
    damaged = CLEAN.replace("morning", "mornign")
    result = restorer.restore(damaged.encode(), channel="typing", alternatives=2)
    (edit,) = result.edits
    assert damaged.encode()[slice(*edit.span)] == b"mornign"
    assert edit.data == b"morning"
    assert 0.5 < edit.probability <= 1
    assert edit.log_odds >= 2
    assert edit.alternatives[0].data == b"morning"


def test_words_of_the_user_are_known(restorer):
    text = CLEAN.replace("morning", "morming")
    assert restore(restorer, text) == CLEAN
    assert restore(restorer, text, words=("morming",)) == text


def test_joined_words_are_divided(restorer):
    damaged = CLEAN.replace("of the", "ofthe").replace("and the boats", "andthe boats")
    assert restore(restorer, damaged) == CLEAN


def test_every_correction_reaches_the_minimum_log_odds(restorer):
    damaged = CLEAN.replace("morning", "mornign").replace("captain", "captian").replace("table", "tabel")
    for limit in (0.0, 2.0, 5.0, 100.0):
        result = restorer.restore(damaged.encode(), channel="typing", min_log_odds=limit)
        assert all(edit.log_odds >= limit for edit in result.edits)
    assert not result.edits
