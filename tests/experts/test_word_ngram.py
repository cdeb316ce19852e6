"""The word expert: its law by hand, and that it sees nothing that is hidden."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import Restorer
from conservator.channels import MaskChannel, TokenDependentMaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context
from conservator.experts.word_ngram import WordModel, count_usage
from conservator.vocabularies import BYTES

TEXT = "the king is dead\nlong live the king\nthe queen will sing and the king will ride\n"
WORDS = WordModel.of([TEXT])


def observe(text):
    return MaskChannel(BYTES.size, 0.5).observe(
        torch.tensor([[BYTES.mask if one == "?" else ord(one) for one in text]])
    )


def laws(words, text, hidden=None):
    """The laws (n, V) at what is hidden of a text, where it is conditioned on the text with ? for what is lost."""
    document = observe(text)
    seen = document.hidden if hidden is None else torch.tensor(hidden)[None] | document.hidden
    at = seen[0].nonzero()[:, 0]
    context = Context(document.readable, seen, start=torch.tensor([0]))
    return words.condition(document).predict(context, (torch.zeros_like(at), at)).exp()


@pytest.mark.parametrize(
    ("text", "letter"),
    [("the k?ng is", "i"), ("long ?ive", "l"), ("the quee? will", "n"), ("the?king", " ")],
)
def test_a_word_that_fits_is_found(text, letter):
    assert int(laws(WORDS, text)[0].argmax()) == ord(letter)


def test_neighbours_decide_between_words():
    words = WordModel.of(["red car, blue cat, red car, blue cat, "])
    assert [chr(int(laws(words, text)[0].argmax())) for text in ("red ca?,", "blue ca?,")] == ["r", "t"]


def test_words_of_the_document_itself_are_known():
    assert int(laws(WORDS, "Prospxro and Prosp?ro")[0].argmax()) == ord("x")


def test_a_word_in_a_text_of_its_own_counts_as_often_as_it_stands_there():
    usage = count_usage([b"a b a", b"b a"])
    numbers = np.array([usage.numbers[b"a"], usage.numbers[b"b"]])
    assert usage.tables.singles(numbers).tolist() == [3, 2]
    assert usage.tables.pairs.times.sum() == 3  # none from one text into the next
    assert usage.size == 5


@settings(deadline=None, max_examples=60)
@given(
    st.text("ab' .\n", min_size=6, max_size=24),
    st.lists(st.booleans(), min_size=24, max_size=24),
    st.text("ab' .\n", min_size=24, max_size=24),
)
def test_what_is_hidden_has_no_say(text, holes, other):
    holes = holes[: len(text)]
    changed = "".join(new if hole else one for one, new, hole in zip(text, other, holes, strict=False))
    words = WordModel.of(["ab ab' a.b\nba"])
    torch.testing.assert_close(laws(words, text, holes), laws(words, changed, holes))


@settings(deadline=None, max_examples=40)
@given(st.text("ab' .\n?", min_size=1, max_size=24))
def test_laws_are_normalised(text):
    found = laws(WORDS, text)
    torch.testing.assert_close(found.sum(-1), torch.ones(len(found)))
    assert (found > 0).all()


def test_texts_without_words_are_no_trouble():
    assert torch.isfinite(laws(WordModel.of([]), "a?c")).all()


def test_words_need_a_whole_document():
    with pytest.raises(ConservatorError, match="whole document"):
        WORDS.condition(MaskChannel(BYTES.size, 0.5).observe(torch.zeros(2, 3, dtype=torch.long)))


def test_a_restorer_takes_words_as_an_expert():
    found = Restorer([WORDS]).restore("the qu\ufffden will s\ufffdng", lost="bytes")
    assert found.text == "the queen will sing"
    assert "words" in found.experts


def test_letters_that_are_lost_more_often_are_filled_in_more_often():
    words = WordModel.of(["a cat and a car and "])
    rates = torch.full((BYTES.size,), 1e-4)
    for letter in "tr":
        rates[ord(letter)] = 0.2
        channel = TokenDependentMaskChannel(rates)
        found = Restorer([words]).restore("a ca\ufffd and", lost="bytes", channel=channel, memory=False, alternatives=2)
        assert found.text == f"a ca{letter} and"
        assert found.alternatives[0][0].data == letter.encode()
        rates[ord(letter)] = 1e-4
