"""Causal experts with different tokens meet at bytes."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.field import log_pool
from conservator.reference import ByteLm, MarkovExpert, enumerate_texts, score_bytes
from conservator.vocabularies import BYTES
from support.causal_experts import SEEDS, TEXTS, VOCABULARIES, seeded


def two(seed):
    return [MarkovExpert.random(VOCABULARIES[name], 1.5, seeded(seed)) for name in ("many cuts", "twice and empty")]


@given(seed=SEEDS, text=TEXTS, weight=st.floats(0, 1))
def test_laws_of_different_vocabularies_can_be_pooled(seed, text, weight):
    laws = []
    for expert in two(seed):
        speller = ByteLm(expert)
        state = speller.start()
        for byte in text:
            (state,) = speller.advance([state], [byte])
        laws.append(state.log_probs)
    field = torch.tensor([[weight, 1 - weight]], dtype=torch.float64)
    pool = log_pool(torch.stack(laws)[:, None], field)[0]
    assert float(pool.exp().sum()) == pytest.approx(1)
    assert set(pool.exp().nonzero()[:, 0].tolist()) == set(b"abc")


@settings(max_examples=10)
@given(
    seed=SEEDS,
    weights=st.lists(st.floats(0.05, 0.95), min_size=5, max_size=5),
    lost=st.sets(st.integers(0, 4), max_size=3),
)
def test_the_pooled_posterior_of_a_damaged_text_is_the_sum_of_weighted_energies(seed, weights, lost):
    """Equation (seq_pool): Q(x) is the product over positions of the experts' energies, each with its weight there."""
    experts, seen = two(seed), b"abcab"
    field = torch.tensor([[weight, 1 - weight] for weight in weights], dtype=torch.float64)
    pattern = [BYTES.mask if place in lost else byte for place, byte in enumerate(seen)]
    texts = sorted(set(enumerate_texts(experts[0], pattern)) & set(enumerate_texts(experts[1], pattern)))
    places = sorted(lost)
    assert {tuple(text[place] for place in places) for text in texts} == set(
        itertools.product(b"abc", repeat=len(lost))
    )
    energies = torch.stack([torch.stack([score_bytes(expert, text) for text in texts]) for expert in experts])
    found = torch.einsum("itl,li->t", energies, field).softmax(0)

    exact = torch.zeros(len(texts), dtype=torch.float64)
    for row, text in enumerate(texts):
        for place in range(len(text)):
            for column, expert in enumerate(experts):
                before, after = (enumerate_texts(expert, text[:end])[text[:end]] for end in (place, place + 1))
                exact[row] += field[place, column] * (after - before)
    assert torch.allclose(found, exact.softmax(0), atol=1e-5)


@settings(max_examples=10)
@given(seed=SEEDS, weight=st.floats(0.1, 0.9))
def test_one_weight_everywhere_needs_no_energies(seed, weight):
    """Then the sum of an expert's energies is log q(x), and the right context has its say."""
    experts, pattern = two(seed), [BYTES.mask, ord("b"), BYTES.mask, ord("a")]
    first, second = (enumerate_texts(expert, pattern) for expert in experts)
    texts = sorted(first)
    exact = torch.tensor([weight * first[text] + (1 - weight) * second[text] for text in texts]).softmax(0)
    energies = [torch.stack([score_bytes(expert, text).sum() for text in texts]) for expert in experts]
    assert torch.allclose((weight * energies[0] + (1 - weight) * energies[1]).softmax(0), exact.double(), atol=1e-5)
