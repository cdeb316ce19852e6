"""The law of every byte of a text, along its canonical cut."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts.causal import byte_conditionals
from conservator.experts.causal.byte_conditionals import windows
from conservator.reference import ByteLm, MarkovExpert, enumerate_texts
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, TEXTS, VOCABULARIES, Remembering


@given(expert=EXPERTS, text=TEXTS)
def test_laws_are_normalised(expert, text):
    laws = byte_conditionals(expert, text)
    assert laws.shape == (len(text), BYTES.size)
    assert torch.allclose(laws.exp().sum(-1), torch.ones(len(text)))


@pytest.mark.parametrize("pieces", [VOCABULARIES["letters"], [b"a", b"bc", b"ba", b"cb", b"cc", b"ca"]])
@given(seed=SEEDS, text=TEXTS)
def test_laws_are_exact_where_no_token_begins_with_another(pieces, seed, text):
    expert = Remembering(pieces, seed)
    if text not in enumerate_texts(expert, text):
        return
    text = text[: len(b"".join(pieces[token] for token in cut_of(pieces, text)))]
    states, speller = [], ByteLm(expert)
    state = speller.start()
    for byte in text:
        states.append(state.log_probs)
        (state,) = speller.advance([state], [byte])
    assert torch.allclose(
        byte_conditionals(expert, text).double().exp(), torch.stack([*states, state.log_probs])[:-1].exp(), atol=1e-5
    )


def cut_of(pieces, text):
    """The whole tokens of a text, in a vocabulary in which no token begins with another."""
    found = []
    while fitting := [token for token, piece in enumerate(pieces) if text.startswith(piece)]:
        found.append(fitting[0])
        text = text[len(pieces[fitting[0]]) :]
    return found


@given(seed=SEEDS)
def test_that_a_token_goes_on_over_its_end_is_counted(seed):
    """The text a is cut into a, but ab may be in progress, too: so the law of what comes next is a mixture."""
    expert = Remembering([b"a", b"ab", b"b"], seed)
    laws = byte_conditionals(expert, b"aa").double()
    onward = enumerate_texts(expert, [ord("a"), BYTES.mask])
    total = torch.tensor(list(onward.values())).logsumexp(0)
    assert float(laws[1, ord("b")]) == pytest.approx(onward[b"ab"] - float(total), abs=1e-4)


def test_a_token_that_nobody_expects_is_still_read_to_its_end():
    start = torch.tensor([0.0, -50.0, 0.0])
    expert = MarkovExpert([b"a", b"bcb", b"abcc"], start, start.expand(3, 3))
    laws = byte_conditionals(expert, b"abcba")
    assert torch.allclose(laws.exp().sum(-1), torch.ones(5))
    assert float(laws[4, ord("a")]) == pytest.approx(0, abs=0.02)


@given(seed=SEEDS)
def test_that_a_token_ends_within_one_of_the_cut_has_its_probability(seed):
    """Of the text ab, cut into ab, the law of b counts that a is a token: what comes then is an average."""
    expert = Remembering([b"a", b"ab", b"b"], seed)
    first = expert.read().grow([], [], [0])[0].double().exp()
    begins = (1 / BYTES.size + first[2]) / 2
    exact = (first[1] + first[0] * begins) / (first[0] + first[1])
    laws = byte_conditionals(expert, b"ab")
    assert float(laws[1, ord("b")]) == pytest.approx(float(exact.log()), abs=1e-4)
    assert (laws[1] > -50).all()


@given(length=st.integers(0, 40), longest=st.none() | st.integers(1, 12))
def test_windows_predict_every_token_once_from_enough_before_it(length, longest):
    predicted = []
    for start, first, end in windows(length, longest):
        predicted += range(first, end)
        assert first == 0 or first - start >= max(longest // 2, 1)
        assert longest is None or end - 1 - start <= longest
    assert predicted == list(range(length))


def test_a_long_text_is_read_in_windows():
    expert = Remembering(VOCABULARIES["letters"], 1)
    expert.spec = dataclasses.replace(expert.spec, max_length=4)
    laws = byte_conditionals(expert, b"abcabcabc")
    assert torch.equal(laws[:5], byte_conditionals(expert, b"abcab"))
    assert torch.allclose(
        laws[5], byte_conditionals(expert, b"abcc")[2]
    )  # the sixth is predicted from two tokens, b"ab"


def test_few_laws_are_held_at_once():
    expert = Remembering(VOCABULARIES["letters"], 1)
    laws = byte_conditionals(expert, b"abc" * 100)
    assert expert.asked == 128
    assert torch.isfinite(laws).all()


def test_a_text_that_cannot_be_cut_is_refused():
    with pytest.raises(ConservatorError, match="byte 1 of the text is not UTF-8"):
        byte_conditionals(Remembering(VOCABULARIES["letters"], 0), b"a\xff")
    lower = Remembering(VOCABULARIES["letters"], 0, lambda text: [b"abc".index(byte) for byte in text.lower().encode()])
    with pytest.raises(
        ConservatorError, match="remembering cuts the text into tokens that spell another, from byte 2 on"
    ):
        byte_conditionals(lower, b"abCa")
    assert math.isfinite(byte_conditionals(lower, b"abca").sum())
