"""The lexicon: words by pattern, language identification, and the distributions of lost characters."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.experts import Context, Lexicon
from conservator.experts.lexicon import MARK, Language, load_languages, mask_non_ascii
from conservator.experts.lexicon.expert import UNLISTED_FREQUENCY, identify_languages
from conservator.experts.lexicon.words import begins_sentence, count_words, read_languages, write_language
from conservator.training.lexicon import count_language
from conservator.vocabularies import CHARACTERS

UP = Language.of({"für": 6, "fér": 2, "der": 8}, {})
DOWN = Language.of({"fůr": 4, "ten": 4}, {})


def conditioned(text, **settings):
    """Return the expert of a text, the text as a context, and the positions of its marks."""
    tokens = torch.tensor([CHARACTERS.mask if char == MARK else CHARACTERS.codes[char] for char in text])[None]
    observation = MaskChannel(CHARACTERS.size, 0.5).observe(tokens)
    at = observation.lost.nonzero(as_tuple=True)
    return Lexicon(**settings).condition(observation), Context(observation.readable, observation.lost), at


def test_words_are_found_by_their_patterns():
    assert UP.match(f"f{MARK}r", first=False) == {"für": 6, "fér": 2}
    assert UP.match("fér", first=False) == {"fér": 2}
    assert UP.match(f"F{MARK}r", first=False) == {}
    assert UP.match(f"F{MARK}r", first=True) == {"Für": 6, "Fér": 2}
    assert UP.frequency("der", first=False) == 0.5
    assert mask_non_ascii("für €") == f"f{MARK}r {MARK}"


@pytest.mark.parametrize(
    ("text", "first"), [("word", True), ("End. word", True), ("an word", False), ('He said: "word', False)]
)
def test_the_first_word_of_a_sentence_is_recognised(text, first):
    assert begins_sentence(text, text.index("word")) == first


def test_languages_are_identified_by_bayes_rule():
    text, languages = f"der f{MARK}r xyz", {"up": UP, "down": DOWN}
    joint = {
        "up": (8 / 16 + UNLISTED_FREQUENCY) * (8 / 16 + UNLISTED_FREQUENCY) * UNLISTED_FREQUENCY,
        "down": UNLISTED_FREQUENCY * (4 / 8 + UNLISTED_FREQUENCY) * UNLISTED_FREQUENCY,
    }
    language_probs = identify_languages(text, languages)
    assert set(language_probs) == {"up"}  # the other language is below the threshold
    assert joint["down"] / joint["up"] < 1e-3
    even = identify_languages(f"f{MARK}r", languages)
    np.testing.assert_allclose(even["up"] / even["down"], 1.0, rtol=1e-4)


def test_a_distribution_follows_the_counts_of_matching_words():
    expert, context, at = conditioned(f"der f{MARK}r", languages={"up": UP, "down": DOWN})
    probs = expert.predict(context, at).exp()[0]
    u, e, other = (float(probs[CHARACTERS.codes[char]]) for char in "üéů")
    assert u > e > other
    assert u / e == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(float(probs.sum()), 1, rtol=1e-4)


@given(st.text(alphabet=["a", "b", " ", ".", MARK, "é", "\n"], max_size=20))
def test_distributions_are_normalised_and_visible_characters_copied(text):
    if not text:
        return
    expert, context, _ = conditioned(text, languages={"up": UP, "down": DOWN})
    positions = torch.arange(len(text))
    probs = expert.predict(context, (torch.zeros_like(positions), positions)).exp()
    np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-3)
    for position, char in enumerate(text):
        if char != MARK:
            assert probs[position].argmax() == CHARACTERS.codes[char]


def test_references_add_words():
    text = f"Herr Z{MARK}lk{MARK} wohnt hier"
    without, context, at = conditioned(text)
    with_references, _, _ = conditioned(text, texts=("Herr Zølkå ist da. " * 3,))
    expected = [CHARACTERS.codes["ø"], CHARACTERS.codes["å"]]
    rows = torch.arange(2)
    assert (with_references.predict(context, at)[rows, expected] > without.predict(context, at)[rows, expected]).all()
    assert (with_references.predict(context, at)[rows, expected].exp() > 0.9).all()


def test_a_non_ascii_word_of_a_single_document_is_not_stored():
    words, by_neighbours = count_language(["für über", "für eine", "alone über"])
    assert words == {"für": 2, "über": 2, "eine": 1, "alone": 1}
    assert "ü" in by_neighbours["fr"]
    assert count_language(["façade"])[0] == {}
    words, by_neighbours = count_words(["été 5€"])
    assert words == {"été": 1}
    assert by_neighbours["0\n"] == {"€": 1}


def test_the_shipped_languages():
    languages = load_languages()
    assert {"de", "fr", "es", "pl", "tr"} <= set(languages)
    assert languages["de"].frequency(f"f{MARK}r", first=False) > 1e-3
    assert math.isfinite(sum(language.total for language in languages.values()))


def test_a_stored_language_is_loaded_unchanged():
    words = {"a": 9, "für": 6, "fér": 2, "der": 8, "d": 1, "l\u2019été": 3, "aéz": 1, "aüb": 2, "Ä": 1, "don't": 4}
    by_neighbours = {"fr": {"ü": 6, "é": 2}, " \n": {"Ä": 1}}
    expected = Language.of(dict(sorted(words.items())), by_neighbours)
    stored = read_languages(write_language("one", words, by_neighbours) + write_language("none", {}, {}))
    assert list(stored) == ["one", "none"]
    loaded = stored["one"]
    assert list(loaded.words.items()) == list(expected.words.items())
    assert (loaded.by_neighbours, loaded.total) == (expected.by_neighbours, expected.total)
    assert loaded.by_context == expected.by_context
    assert len(loaded.words) == len(expected.words)
    for pattern in ("f", "fr", "zz", "", "de", f"{MARK}r"):
        assert pattern not in loaded.words
    assert len(stored["none"].words) == 0
