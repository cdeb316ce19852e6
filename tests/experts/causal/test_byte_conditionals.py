"""Conditionals of every byte of a text, along its canonical tokenization."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts.causal import byte_conditionals
from conservator.experts.causal.byte_conditionals import windows
from conservator.reference import MarkovExpert, enumerate_texts
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, TEXTS, VOCABULARIES, PathDependentExpert


@given(expert=EXPERTS, text=TEXTS)
def test_conditionals_are_normalised(expert, text):
    log_probs = byte_conditionals(expert, text)
    assert log_probs.shape == (len(text), BYTES.size)
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(len(text)))


@pytest.mark.parametrize("token_bytes", [VOCABULARIES["letters"], [b"a", b"bc", b"ba", b"cb", b"cc", b"ca"]])
@given(seed=SEEDS, text=TEXTS)
def test_conditionals_are_exact_where_no_token_is_a_prefix_of_another(token_bytes, seed, text):
    expert = PathDependentExpert(token_bytes, seed)
    if text not in enumerate_texts(expert, text):
        return
    text = text[: len(b"".join(token_bytes[token] for token in tokenize(token_bytes, text)))]
    for position, log_probs in enumerate(byte_conditionals(expert, text)):
        longer = enumerate_texts(expert, [*text[:position], BYTES.mask])
        log_joint = [longer.get(text[:position] + bytes([byte]), -math.inf) for byte in range(BYTES.size)]
        assert torch.allclose(log_probs.double().exp(), torch.tensor(log_joint).double().softmax(0), atol=1e-5)


def tokenize(token_bytes, text):
    """The complete tokens of a text, in a vocabulary in which no token is a prefix of another."""
    tokens = []
    while fitting := [token for token, data in enumerate(token_bytes) if text.startswith(data)]:
        tokens.append(fitting[0])
        text = text[len(token_bytes[fitting[0]]) :]
    return tokens


@given(seed=SEEDS)
def test_a_token_that_extends_beyond_a_canonical_boundary_is_counted(seed):
    """The text a has the canonical token a, but ab may be in progress: the next byte is a mixture of both."""
    expert = PathDependentExpert([b"a", b"ab", b"b"], seed)
    log_probs = byte_conditionals(expert, b"aa").double()
    longer = enumerate_texts(expert, [ord("a"), BYTES.mask])
    total = torch.tensor(list(longer.values())).logsumexp(0)
    assert float(log_probs[1, ord("b")]) == pytest.approx(longer[b"ab"] - float(total), abs=1e-4)


def test_an_unlikely_canonical_token_is_not_pruned():
    start = torch.tensor([0.0, -50.0, 0.0])
    expert = MarkovExpert([b"a", b"bcb", b"abcc"], start, start.expand(3, 3))
    log_probs = byte_conditionals(expert, b"abcba")
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(5))
    assert float(log_probs[4, ord("a")]) == pytest.approx(0, abs=0.02)


@given(seed=SEEDS)
def test_a_token_that_ends_inside_a_canonical_one_contributes_its_probability(seed):
    """In the text ab with the canonical token ab, a may be a token, and the byte after it is an average."""
    expert = PathDependentExpert([b"a", b"ab", b"b"], seed)
    first = expert.read().extend([], [], [0])[0].double().exp()
    begins = (1 / BYTES.size + first[2]) / 2
    exact = (first[1] + first[0] * begins) / (first[0] + first[1])
    log_probs = byte_conditionals(expert, b"ab")
    assert float(log_probs[1, ord("b")]) == pytest.approx(float(exact.log()), abs=1e-4)
    assert (log_probs[1] > -50).all()


@given(length=st.integers(0, 40), max_length=st.none() | st.integers(1, 12))
def test_windows_predict_every_token_once_from_enough_context(length, max_length):
    predicted = []
    for start, first, end in windows(length, max_length):
        predicted += range(first, end)
        assert first == 0 or first - start >= max(max_length // 2, 1)
        assert max_length is None or end - 1 - start <= max_length
    assert predicted == list(range(length))


def test_a_long_text_is_evaluated_in_windows():
    expert = PathDependentExpert(VOCABULARIES["letters"], 1)
    expert.spec = dataclasses.replace(expert.spec, max_length=4)
    log_probs = byte_conditionals(expert, b"abcabcabc")
    assert torch.equal(log_probs[:5], byte_conditionals(expert, b"abcab"))
    # The sixth token is predicted from two tokens, b"ab".
    assert torch.allclose(log_probs[5], byte_conditionals(expert, b"abcc")[2])


def test_the_number_of_conditionals_in_memory_is_bounded():
    expert = PathDependentExpert(VOCABULARIES["letters"], 1)
    log_probs = byte_conditionals(expert, b"abc" * 100)
    assert expert.max_rows == 128
    assert torch.isfinite(log_probs).all()


def test_a_text_that_cannot_be_tokenized_is_rejected():
    with pytest.raises(ConservatorError, match="invalid byte at position 1 of the text"):
        byte_conditionals(PathDependentExpert(VOCABULARIES["letters"], 0), b"a\xff")
    lowercase = PathDependentExpert(
        VOCABULARIES["letters"], 0, lambda text: [b"abc".index(byte) for byte in text.lower().encode()]
    )
    with pytest.raises(ConservatorError, match=r"path dependent do not decode to the same text: .* from byte 2 on"):
        byte_conditionals(lowercase, b"abCa")
    assert math.isfinite(byte_conditionals(lowercase, b"abca").sum())
