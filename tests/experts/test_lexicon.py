"""The lexicon: words by their patterns, the language of a document, laws of lost characters."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.experts import Context, Lexicon
from conservator.experts.lexicon import MARK, Language, load_languages, lose
from conservator.experts.lexicon.expert import RARE, tell_languages
from conservator.experts.lexicon.words import begins_sentence, count_words, read_languages, write_language
from conservator.training.lexicon import count_language
from conservator.vocabularies import CHARACTERS

UP = Language.of({"für": 6, "fér": 2, "der": 8}, {})
DOWN = Language.of({"fůr": 4, "ten": 4}, {})


def conditioned(text, **settings):
    """The expert for a text, the text as a context, and the places of its marks."""
    tokens = torch.tensor([CHARACTERS.mask if one == MARK else CHARACTERS.codes[one] for one in text])[None]
    observation = MaskChannel(CHARACTERS.size, 0.5).observe(tokens)
    at = observation.lost.nonzero(as_tuple=True)
    return Lexicon(**settings).condition(observation), Context(observation.readable, observation.lost), at


def test_words_are_found_by_their_patterns():
    assert UP.like(f"f{MARK}r", first=False) == {"für": 6, "fér": 2}
    assert UP.like("fér", first=False) == {"fér": 2}
    assert UP.like(f"F{MARK}r", first=False) == {}
    assert UP.like(f"F{MARK}r", first=True) == {"Für": 6, "Fér": 2}
    assert UP.frequency("der", first=False) == 0.5
    assert lose("für €") == f"f{MARK}r {MARK}"


@pytest.mark.parametrize(
    ("text", "first"), [("word", True), ("End. word", True), ("an word", False), ('He said: "word', False)]
)
def test_the_first_word_of_a_sentence(text, first):
    assert begins_sentence(text, text.index("word")) == first


def test_the_language_is_told_by_bayes_rule():
    text, languages = f"der f{MARK}r xyz", {"up": UP, "down": DOWN}
    joint = {
        "up": (8 / 16 + RARE) * (8 / 16 + RARE) * RARE,
        "down": RARE * (4 / 8 + RARE) * RARE,
    }
    found = tell_languages(text, languages)
    assert set(found) == {"up"}  # the other is too unlikely
    assert joint["down"] / joint["up"] < 1e-3
    even = tell_languages(f"f{MARK}r", languages)
    np.testing.assert_allclose(even["up"] / even["down"], 1.0, rtol=1e-4)


def test_a_law_is_that_of_the_words():
    reader, context, at = conditioned(f"der f{MARK}r", languages={"up": UP, "down": DOWN})
    law = reader.predict(context, at).exp()[0]
    u, e, other = (float(law[CHARACTERS.codes[one]]) for one in "üéů")
    assert u > e > other
    assert u / e == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(float(law.sum()), 1, rtol=1e-4)


@given(st.text(alphabet=["a", "b", " ", ".", MARK, "é", "\n"], max_size=20))
def test_laws_are_normalised_and_visible_characters_copied(text):
    if not text:
        return
    reader, context, _ = conditioned(text, languages={"up": UP, "down": DOWN})
    places = torch.arange(len(text))
    law = reader.predict(context, (torch.zeros_like(places), places)).exp()
    np.testing.assert_allclose(law.sum(-1), 1, rtol=1e-3)
    for place, one in enumerate(text):
        if one != MARK:
            assert law[place].argmax() == CHARACTERS.codes[one]


def test_texts_like_the_document_teach_new_words():
    text = f"Herr Z{MARK}lk{MARK} wohnt hier"
    plain, context, at = conditioned(text)
    taught, _, _ = conditioned(text, texts=("Herr Zølkå ist da. " * 3,))
    wanted = [CHARACTERS.codes["ø"], CHARACTERS.codes["å"]]
    rows = torch.arange(2)
    assert (taught.predict(context, at)[rows, wanted] > plain.predict(context, at)[rows, wanted]).all()
    assert (taught.predict(context, at)[rows, wanted].exp() > 0.9).all()


def test_counting_keeps_no_word_of_a_single_document():
    words, around = count_language(["für über", "für eine", "alone über"])
    assert words == {"für": 2, "über": 2, "eine": 1, "alone": 1}
    assert "ü" in around["fr"]
    assert count_language(["façade"])[0] == {}
    words, around = count_words(["été 5€"])
    assert words == {"été": 1}
    assert around["0\n"] == {"€": 1}


def test_what_comes_with_the_package():
    languages = load_languages()
    assert {"de", "fr", "es", "pl", "tr"} <= set(languages)
    assert languages["de"].frequency(f"f{MARK}r", first=False) > 1e-3
    assert math.isfinite(sum(one.total for one in languages.values()))


def test_a_stored_language_is_the_same():
    words = {"a": 9, "für": 6, "fér": 2, "der": 8, "d": 1, "l\u2019été": 3, "aéz": 1, "aüb": 2, "Ä": 1, "don't": 4}
    around = {"fr": {"ü": 6, "é": 2}, " \n": {"Ä": 1}}
    known = Language.of(dict(sorted(words.items())), around)
    stored = read_languages(write_language("one", words, around) + write_language("none", {}, {}))
    assert list(stored) == ["one", "none"]
    found = stored["one"]
    assert list(found.words.items()) == list(known.words.items())
    assert (found.around, found.total, found.contexts) == (known.around, known.total, known.contexts)
    assert len(found.words) == len(known.words)
    for pattern in ("f", "fr", "zz", "", "de", f"{MARK}r"):
        assert pattern not in found.words
    assert len(stored["none"].words) == 0
