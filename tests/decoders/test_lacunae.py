"""The search for candidates of lacunae, compared with all texts of a small alphabet."""

from itertools import product

import numpy as np
import pytest

from conservator.decoders.lacunae import Directions, LacunaSearch
from conservator.experts.char_ngram import CharNgramMixture, CharNgramModel

TEXTS = ("abba cab bac", "cabba abc ab cab bab")
ALPHABET = "abc "


def models(temperature=1.0, order=4):
    """Two models in each direction."""
    directions = (
        CharNgramMixture.of([CharNgramModel.of(f"m{i}", [text[::step]], order) for i, text in enumerate(TEXTS)])
        for step in (1, -1)
    )
    return Directions(*directions, ALPHABET, temperature)


def exact_score(directions, left, text, right, log_length):
    """The score without the context before the lacuna, whose probability is the same for all candidates."""
    parts = []
    for mixture, before, inner, after in (
        (directions.forward, left, text, right),
        (directions.backward, right[::-1], text[::-1], left[::-1]),
    ):
        parts.append(float(mixture.log_probs(before + inner + after, "")[len(before) :].sum()))
    return log_length + sum(parts) / (2 * directions.temperature)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_wide_search_finds_all_texts_with_their_scores(temperature):
    directions, lengths = models(temperature), {1: -1.0, 3: -0.5}
    search = LacunaSearch(width=64, before_characters=8, after_characters=8)
    log_scores = search.candidates(directions, ALPHABET, "abba", " cab", lengths)
    texts = ["".join(letters) for length in lengths for letters in product(ALPHABET, repeat=length)]
    assert set(log_scores) == set(texts)
    for text in texts:
        assert np.isclose(log_scores[text], exact_score(directions, "abba", text, " cab", lengths[len(text)]))


def test_a_narrow_search_scores_the_same():
    directions, lengths = models(), {3: 0.0}
    wide = LacunaSearch(width=64).candidates(directions, ALPHABET, "ab", "b c", lengths)
    narrow = LacunaSearch(width=3).candidates(directions, ALPHABET, "ab", "b c", lengths)
    assert 3 <= len(narrow) <= 6
    assert all(np.isclose(score, wide[text]) for text, score in narrow.items())


def test_without_lengths_there_are_no_candidates():
    assert LacunaSearch().candidates(models(), ALPHABET, "a", "b", {}) == {}


def test_a_model_can_be_appended_to_a_mixture():
    first, second = (CharNgramModel.of(f"m{i}", [text]) for i, text in enumerate(TEXTS))
    joined = CharNgramMixture.of([first, second])
    appended = CharNgramMixture.of([first]).append(second, 0.5)
    assert appended.names == joined.names
    assert np.allclose(appended.log_probs("abba cab"), joined.log_probs("abba cab"))
    alone = CharNgramMixture.of([first])
    alone.append(second, 0.5)
    assert np.allclose(alone.log_probs("abba"), CharNgramMixture.of([first]).log_probs("abba"))
