"""Byte-level probabilities of a token model, against the enumeration of its texts."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.reference import ByteLm, MarkovExpert, enumerate_texts, score_bytes
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, TEXTS, VOCABULARIES, PathDependentExpert

WIDTHS = st.integers(1, 3)
SHARES = st.sampled_from([0.0, 0.05, 0.4])


def states_of(model, text):
    states = [model.start()]
    for byte in text:
        states += model.advance(states[-1:], [byte])
    return states


def exact(expert, text):
    return enumerate_texts(expert, text).get(text, -math.inf)


@given(expert=EXPERTS, text=TEXTS)
def test_a_state_of_full_width_is_the_enumeration(expert, text):
    state = states_of(ByteLm(expert), text)[-1]
    assert state.log_prob == pytest.approx(exact(expert, text), abs=1e-4)
    assert state.pruned_nats == 0
    longer = enumerate_texts(expert, [*text, BYTES.mask])
    log_probs = [longer.get(text + bytes([byte]), -math.inf) - state.log_prob for byte in range(BYTES.size)]
    assert torch.allclose(state.log_probs.exp(), torch.tensor(log_probs, dtype=torch.float64).exp(), atol=1e-5)


@given(expert=EXPERTS, text=TEXTS, width=WIDTHS, share=SHARES)
def test_conditionals_are_normalised_and_sum_to_the_log_prob_and_the_loss(expert, text, width, share):
    states = states_of(ByteLm(expert, width, share), text)
    for state in states:
        assert float(state.log_probs.exp().sum()) == pytest.approx(1)
        assert torch.isfinite(state.log_probs).all()
    total = sum(float(state.log_probs[byte]) for state, byte in zip(states, text, strict=False))
    assert total == pytest.approx(states[-1].log_prob + states[-1].pruned_nats, abs=1e-6)


@given(expert=EXPERTS, text=TEXTS, width=WIDTHS, share=SHARES)
def test_a_narrow_beam_is_a_lower_bound(expert, text, width, share):
    states = states_of(ByteLm(expert, width, share), text)
    for position, state in enumerate(states):
        assert state.log_prob <= exact(expert, text[:position]) + 1e-4
        assert len(state.hypotheses) <= width + 1
        assert state.pruned_nats >= 0


@given(expert=EXPERTS, texts=st.lists(TEXTS, min_size=1, max_size=5), width=st.none() | WIDTHS)
def test_a_batch_gives_the_results_of_single_texts(expert, texts, width):
    length = min(map(len, texts))
    model = ByteLm(expert, width)
    states = [model.start()] * len(texts)
    for position in range(length):
        states = model.advance(states, [text[position] for text in texts])
    for text, state in zip(texts, states, strict=True):
        single = states_of(ByteLm(expert, width), text[:length])[-1]
        assert state.log_prob == pytest.approx(single.log_prob)
        assert torch.allclose(state.log_probs, single.log_probs)


@given(seed=SEEDS, text=TEXTS)
def test_a_state_can_be_advanced_twice(seed, text):
    model = ByteLm(PathDependentExpert(VOCABULARIES["many cuts"], seed))
    state = states_of(model, text)[-1]
    before = state.log_prob
    first, second = model.advance([state, state], b"ab")
    assert (first.log_prob, second.log_prob) == tuple(
        pytest.approx(before + float(state.log_probs[byte]), abs=1e-6) for byte in b"ab"
    )
    assert state.log_prob == before


@given(expert=EXPERTS, text=TEXTS)
def test_the_scores_of_a_text_are_its_local_scores(expert, text):
    scores = score_bytes(expert, text)
    prefixes = [exact(expert, text[:length]) for length in range(len(text) + 1)]
    expected = [after - before for before, after in itertools.pairwise(prefixes)]
    assert scores.tolist() == pytest.approx(expected, abs=1e-4)


def test_only_canonical_tokenizations_are_used_if_they_are_known():
    """By the longest token from the left, aab has the tokenization aab, and not a, ab."""
    token_bytes = VOCABULARIES["many cuts"]
    greedy = PathDependentExpert(token_bytes, 0).spec.tokens.tokenize
    expert = PathDependentExpert(token_bytes, 0, greedy)
    states = states_of(ByteLm(expert), b"aab")
    last = {hypothesis.last for hypothesis in states[-1].hypotheses if not hypothesis.prefix.text}
    assert last == {token_bytes.index(b"aab")}
    assert states[-1].pruned_nats > 0
    assert states[-1].log_prob < exact(expert, b"aab")


def test_other_tokenizations_are_used_if_none_is_canonical():
    expert = PathDependentExpert([b"a", b"b", b"ab"], 0, lambda text: [2] if text == "ab" else [0] * len(text))
    model = ByteLm(expert, width=1)
    for state in states_of(model, b"abbaab"):
        assert state.log_prob > -math.inf


def test_a_text_of_probability_zero_has_no_next_byte(generator):
    expert = MarkovExpert.random([b"a", b"bc"], 1.0, generator, "chain")
    with pytest.raises(ConservatorError, match=r"byte 2 \(b'a'\) of the text fits no token of chain"):
        score_bytes(expert, b"aba")
    dead = states_of(ByteLm(expert), b"aba")[-1]
    assert dead.log_prob == -math.inf
    with pytest.raises(ConservatorError, match="the model gives this text probability 0"):
        assert dead.log_probs is None


def test_the_number_of_conditionals_in_memory_is_bounded():
    expert = PathDependentExpert(VOCABULARIES["many cuts"], 0)
    model = ByteLm(expert)
    model.advance([model.start()] * 200, b"a" * 200)
    assert expert.max_rows == 128


def test_log_probs_far_below_those_of_other_tokens_keep_their_precision():
    start = torch.tensor([0.0, -60.0, -61.0])
    expert = MarkovExpert([b"a", b"ba", b"bb"], start, torch.zeros(3, 3))
    log_probs = ByteLm(expert).start().log_probs
    assert float(log_probs[ord("b")]) == pytest.approx(-60 + math.log1p(math.exp(-1)), abs=1e-4)


def test_long_tokens_count(generator):
    expert = MarkovExpert.random([b" ", b" " * 40, b"x"], 1.0, generator)
    assert score_bytes(expert, b" " * 8).sum() == pytest.approx(exact(expert, b" " * 8), abs=1e-5)
