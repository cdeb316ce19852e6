"""Causal experts with different vocabularies are composed over bytes."""

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
def test_conditionals_of_different_vocabularies_can_be_pooled(seed, text, weight):
    log_probs = []
    for expert in two(seed):
        model = ByteLm(expert)
        state = model.start()
        for byte in text:
            (state,) = model.advance([state], [byte])
        log_probs.append(state.log_probs)
    field = torch.tensor([[weight, 1 - weight]], dtype=torch.float64)
    pool = log_pool(torch.stack(log_probs)[:, None], field)[0]
    assert float(pool.exp().sum()) == pytest.approx(1)
    assert set(pool.exp().nonzero()[:, 0].tolist()) == set(b"abc")


@settings(max_examples=10)
@given(
    seed=SEEDS,
    weights=st.lists(st.floats(0.05, 0.95), min_size=5, max_size=5),
    lost=st.sets(st.integers(0, 4), max_size=3),
)
def test_the_pooled_posterior_of_a_damaged_text_is_the_sum_of_weighted_local_scores(seed, weights, lost):
    """Equation (seq_pool): Q(x) is a product over positions of the experts' conditionals, raised to their weights."""
    experts, seen = two(seed), b"abcab"
    field = torch.tensor([[weight, 1 - weight] for weight in weights], dtype=torch.float64)
    pattern = [BYTES.mask if position in lost else byte for position, byte in enumerate(seen)]
    texts = sorted(set(enumerate_texts(experts[0], pattern)) & set(enumerate_texts(experts[1], pattern)))
    positions = sorted(lost)
    assert {tuple(text[position] for position in positions) for text in texts} == set(
        itertools.product(b"abc", repeat=len(lost))
    )
    scores = torch.stack([torch.stack([score_bytes(expert, text) for text in texts]) for expert in experts])
    posterior = torch.einsum("itl,li->t", scores, field).softmax(0)

    exact = torch.zeros(len(texts), dtype=torch.float64)
    for row, text in enumerate(texts):
        for position in range(len(text)):
            for column, expert in enumerate(experts):
                before, after = (enumerate_texts(expert, text[:end])[text[:end]] for end in (position, position + 1))
                exact[row] += field[position, column] * (after - before)
    assert torch.allclose(posterior, exact.softmax(0), atol=1e-5)


@settings(max_examples=10)
@given(seed=SEEDS, weight=st.floats(0.1, 0.9))
def test_a_global_weight_needs_no_local_scores(seed, weight):
    """The sum of an expert's local scores is log q(x), which includes the right context."""
    experts, pattern = two(seed), [BYTES.mask, ord("b"), BYTES.mask, ord("a")]
    first, second = (enumerate_texts(expert, pattern) for expert in experts)
    texts = sorted(first)
    exact = torch.tensor([weight * first[text] + (1 - weight) * second[text] for text in texts]).softmax(0)
    scores = [torch.stack([score_bytes(expert, text).sum() for text in texts]) for expert in experts]
    assert torch.allclose((weight * scores[0] + (1 - weight) * scores[1]).softmax(0), exact.double(), atol=1e-5)
