"""The word expert: predictions on small examples, and independence of hidden bytes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import MaskChannel, TokenDependentMaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context
from conservator.experts.word_ngram import WordModel, count_word_ngrams
from conservator.vocabularies import BYTES

TEXT = "the king is dead\nlong live the king\nthe queen will sing and the king will ride\n"
WORDS = WordModel.of([TEXT])


def observe(text):
    return MaskChannel(BYTES.size, 0.5).observe(
        torch.tensor([[BYTES.mask if char == "?" else ord(char) for char in text]])
    )


def probabilities(words, text, hidden=None):
    """Return the probabilities (n, V) at the hidden positions of a text, in which ? is a lost byte."""
    document = observe(text)
    masked = document.hidden if hidden is None else torch.tensor(hidden)[None] | document.hidden
    at = masked[0].nonzero()[:, 0]
    context = Context(document.readable, masked, start=torch.tensor([0]))
    return words.condition(document).predict(context, (torch.zeros_like(at), at)).exp()


@pytest.mark.parametrize(
    ("text", "letter"),
    [("the k?ng is", "i"), ("long ?ive", "l"), ("the quee? will", "n"), ("the?king", " ")],
)
def test_a_matching_word_is_predicted(text, letter):
    assert int(probabilities(WORDS, text)[0].argmax()) == ord(letter)


def test_neighbours_decide_between_words():
    words = WordModel.of(["red car, blue cat, red car, blue cat, "])
    assert [chr(int(probabilities(words, text)[0].argmax())) for text in ("red ca?,", "blue ca?,")] == ["r", "t"]


def test_words_of_the_document_are_counted():
    assert int(probabilities(WORDS, "Prospxro and Prosp?ro")[0].argmax()) == ord("x")


def test_words_are_counted_and_no_pair_extends_over_the_end_of_a_text():
    word_counts = count_word_ngrams([b"a b a", b"b a"])
    ids = np.array([word_counts.ids[b"a"], word_counts.ids[b"b"]])
    assert word_counts.tables.unigrams(ids).tolist() == [3, 2]
    assert word_counts.tables.bigrams.counts.sum() == 3
    assert word_counts.total == 5


@settings(deadline=None, max_examples=60)
@given(
    st.text("ab' .\n", min_size=6, max_size=24),
    st.lists(st.booleans(), min_size=24, max_size=24),
    st.text("ab' .\n", min_size=24, max_size=24),
)
def test_hidden_bytes_do_not_change_predictions(text, holes, other):
    holes = holes[: len(text)]
    changed = "".join(new if hole else old for old, new, hole in zip(text, other, holes, strict=False))
    words = replace(WordModel.of(["ab ab' a.b\nba"]), lists=False)  # languages are identified from the whole document
    torch.testing.assert_close(probabilities(words, text, holes), probabilities(words, changed, holes))


@settings(deadline=None, max_examples=40)
@given(st.text("ab' .\n?", min_size=1, max_size=24))
def test_distributions_are_normalised(text):
    probs = probabilities(WORDS, text)
    torch.testing.assert_close(probs.sum(-1), torch.ones(len(probs)))
    assert (probs > 0).all()


def test_an_empty_reference_gives_finite_probabilities():
    assert torch.isfinite(probabilities(WordModel.of([]), "a?c")).all()


def test_the_word_expert_needs_one_complete_document():
    with pytest.raises(ConservatorError, match=r"one complete document of shape \(1, L\), got \(2, 3\)"):
        WORDS.condition(MaskChannel(BYTES.size, 0.5).observe(torch.zeros(2, 3, dtype=torch.long)))


def test_a_restorer_accepts_a_word_model_as_an_expert():
    result = Restorer([WORDS]).restore("the qu\ufffden will s\ufffdng", lost="bytes")
    assert result.text == "the queen will sing"
    assert "words" in result.experts


def test_letters_with_a_higher_loss_rate_are_preferred():
    words = WordModel.of(["a cat and a car and "])
    rates = torch.full((BYTES.size,), 1e-4)
    for letter in "tr":
        rates[ord(letter)] = 0.2
        channel = TokenDependentMaskChannel(rates)
        result = Restorer([words]).restore(
            "a ca\ufffd and", lost="bytes", channel=channel, memory=False, alternatives=2
        )
        assert result.text == f"a ca{letter} and"
        assert result.edits[0].alternatives[0].data == letter.encode()
        rates[ord(letter)] = 1e-4
