"""A token model made to speak of bytes, against the enumeration of its texts."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.reference import ByteLm, MarkovExpert, enumerate_texts, score_bytes
from conservator.vocabularies import BYTES
from support.causal_experts import EXPERTS, SEEDS, TEXTS, VOCABULARIES, Remembering

WIDTHS = st.integers(1, 3)
SHARES = st.sampled_from([0.0, 0.05, 0.4])


def spell(speller, text):
    states = [speller.start()]
    for byte in text:
        states += speller.advance(states[-1:], [byte])
    return states


def exact(expert, text):
    return enumerate_texts(expert, text).get(text, -math.inf)


@given(expert=EXPERTS, text=TEXTS)
def test_a_state_of_full_width_is_the_enumeration(expert, text):
    state = spell(ByteLm(expert), text)[-1]
    assert state.log_prob == pytest.approx(exact(expert, text), abs=1e-4)
    assert state.lost == 0
    onward = enumerate_texts(expert, [*text, BYTES.mask])
    law = [onward.get(text + bytes([byte]), -math.inf) - state.log_prob for byte in range(BYTES.size)]
    assert torch.allclose(state.law.exp(), torch.tensor(law, dtype=torch.float64).exp(), atol=1e-5)


@given(expert=EXPERTS, text=TEXTS, width=WIDTHS, share=SHARES)
def test_laws_are_normalised_and_their_sum_is_the_probability_and_the_loss(expert, text, width, share):
    states = spell(ByteLm(expert, width, share), text)
    for state in states:
        assert float(state.law.exp().sum()) == pytest.approx(1)
        assert torch.isfinite(state.law).all()
    total = sum(float(state.law[byte]) for state, byte in zip(states, text, strict=False))
    assert total == pytest.approx(states[-1].log_prob + states[-1].lost, abs=1e-6)


@given(expert=EXPERTS, text=TEXTS, width=WIDTHS, share=SHARES)
def test_a_narrow_beam_never_says_too_much(expert, text, width, share):
    states = spell(ByteLm(expert, width, share), text)
    for place, state in enumerate(states):
        assert state.log_prob <= exact(expert, text[:place]) + 1e-4
        assert len(state.hypotheses) <= width + 1
        assert state.lost >= 0


@given(expert=EXPERTS, texts=st.lists(TEXTS, min_size=1, max_size=5), width=st.none() | WIDTHS)
def test_a_batch_is_one_by_one(expert, texts, width):
    length = min(map(len, texts))
    speller = ByteLm(expert, width)
    states = [speller.start()] * len(texts)
    for place in range(length):
        states = speller.advance(states, [text[place] for text in texts])
    for text, state in zip(texts, states, strict=True):
        alone = spell(ByteLm(expert, width), text[:length])[-1]
        assert state.log_prob == pytest.approx(alone.log_prob)
        assert torch.allclose(state.law, alone.law)


@given(seed=SEEDS, text=TEXTS)
def test_a_state_can_be_advanced_twice(seed, text):
    speller = ByteLm(Remembering(VOCABULARIES["many cuts"], seed))
    state = spell(speller, text)[-1]
    before = state.log_prob
    first, second = speller.advance([state, state], b"ab")
    assert (first.log_prob, second.log_prob) == tuple(
        pytest.approx(before + float(state.law[byte]), abs=1e-6) for byte in b"ab"
    )
    assert state.log_prob == before


@given(expert=EXPERTS, text=TEXTS)
def test_the_scores_of_a_text_are_its_local_energies(expert, text):
    scores = score_bytes(expert, text)
    begun = [exact(expert, text[:place]) for place in range(len(text) + 1)]
    energies = [after - before for before, after in itertools.pairwise(begun)]
    assert scores.tolist() == pytest.approx(energies, abs=1e-4)


def test_only_canonical_cuts_are_kept_where_they_are_known():
    """By the longest piece from the left, aab is cut into aab alone: a, then ab, is no cut of it."""
    pieces = VOCABULARIES["many cuts"]
    greedy = Remembering(pieces, 0).spec.tokens.tokenize
    expert = Remembering(pieces, 0, greedy)
    states = spell(ByteLm(expert), b"aab")
    kept = {hypothesis.last for hypothesis in states[-1].hypotheses if not hypothesis.prefix.text}
    assert kept == {pieces.index(b"aab")}
    assert states[-1].lost > 0
    assert states[-1].log_prob < exact(expert, b"aab")


def test_what_stands_between_is_kept_if_nothing_canonical_is():
    expert = Remembering([b"a", b"b", b"ab"], 0, lambda text: [2] if text == "ab" else [0] * len(text))
    speller = ByteLm(expert, width=1)
    for state in spell(speller, b"abbaab"):
        assert state.log_prob > -math.inf


def test_an_impossible_text_has_no_law(generator):
    expert = MarkovExpert.random([b"a", b"bc"], 1.0, generator, "chain")
    with pytest.raises(ConservatorError, match=r"byte 2 \(b'a'\) of the text fits no token of chain"):
        score_bytes(expert, b"aba")
    dead = spell(ByteLm(expert), b"aba")[-1]
    assert dead.log_prob == -math.inf
    with pytest.raises(ConservatorError, match="the text is impossible"):
        assert dead.law is None


def test_few_laws_are_held_at_once():
    expert = Remembering(VOCABULARIES["many cuts"], 0)
    speller = ByteLm(expert)
    speller.advance([speller.start()] * 200, b"a" * 200)
    assert expert.asked == 128


def test_chances_far_below_those_of_other_tokens_keep_their_precision():
    start = torch.tensor([0.0, -60.0, -61.0])
    expert = MarkovExpert([b"a", b"ba", b"bb"], start, torch.zeros(3, 3))
    law = ByteLm(expert).start().law
    assert float(law[ord("b")]) == pytest.approx(-60 + math.log1p(math.exp(-1)), abs=1e-4)


def test_long_tokens_count(generator):
    expert = MarkovExpert.random([b" ", b" " * 40, b"x"], 1.0, generator)
    assert score_bytes(expert, b" " * 8).sum() == pytest.approx(exact(expert, b" " * 8), abs=1e-5)
