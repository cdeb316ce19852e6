"""The enumerated expert against the definition, and cavities against the enumerated expert."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts import Context, MaskSource
from conservator.experts.uniform import cavity
from conservator.reference import EnumeratedExpert
from support.uniform_experts import LENGTH, SEQUENCES, SIZE, random_expert, uniform_table

seeds, scales = st.integers(0, 1000), st.floats(0, 4)
# Up to one part in a million from either end.
times = st.one_of(st.floats(0, 1 - 1e-6), st.floats(-6, -1).map(lambda power: 1 - 10**power))


def by_definition(expert, state, kappa, without=None):
    """p(x_l = v | x_t), or given x_t without one position, as a sum over all sequences: (L, V)."""
    weight = expert.log_density(SEQUENCES).exp()
    for position in range(LENGTH):
        if position != without:
            weight = weight * (kappa * (SEQUENCES[:, position] == state[position]).double() + (1 - kappa) / SIZE)
    table = torch.zeros(LENGTH, SIZE, dtype=torch.float64)
    for position in range(LENGTH):
        table[position].scatter_add_(0, SEQUENCES[:, position], weight)
    return table / weight.sum()


@given(seed=seeds, scale=scales, kappa=times, which=st.integers(0, len(SEQUENCES) - 1))
def test_the_enumerated_expert_is_the_bayes_denoiser(seed, scale, kappa, which):
    expert, state = random_expert(seed, scale), SEQUENCES[which]
    probs = uniform_table(expert, state[None], kappa)[0].exp()
    torch.testing.assert_close(probs, by_definition(expert, state, kappa))


@given(seed=seeds, scale=scales, kappa=times, which=st.integers(0, len(SEQUENCES) - 1))
def test_a_cavity_is_the_distribution_given_the_other_tokens(seed, scale, kappa, which):
    expert, state = random_expert(seed, scale), SEQUENCES[which]
    rows = uniform_table(expert, state[None], kappa)[0]
    probs = cavity(rows, state, torch.full((LENGTH,), kappa, dtype=torch.float64)).exp()
    exact = torch.stack([by_definition(expert, state, kappa, position)[position] for position in range(LENGTH)])
    assert (probs - exact).abs().max() < 1e-10


def test_a_sequence_of_one_token_has_the_marginal_distribution():
    expert = random_expert(0)
    short = uniform_table(expert, SEQUENCES[:1, :1], 0.0)[0, 0]
    marginal = expert.log_joint.exp().sum((1, 2))
    torch.testing.assert_close(short.exp(), marginal)


def test_a_large_vocabulary_is_normalised_in_single_precision(generator):
    rows = torch.log_softmax(8 * torch.randn(2, 50257, generator=generator), dim=-1)
    log_probs = cavity(rows, torch.tensor([0, 7]), torch.tensor([0.3, 0.999]))
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2))


@pytest.mark.parametrize("kappa", [1.0, -0.1, float("nan")])
def test_a_time_without_a_cavity_is_rejected(kappa):
    with pytest.raises(ConservatorError, match="below 1"):
        cavity(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long), torch.tensor([kappa]))


def test_invalid_inputs_of_an_enumerated_expert_are_rejected():
    tokens = torch.zeros(1, LENGTH, dtype=torch.long)
    at = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    with pytest.raises(ConservatorError, match="no token may be hidden"):
        random_expert(0).predict(Context(tokens, tokens == 0, torch.tensor([0.5])), at)
    with pytest.raises(ConservatorError, match=r"context.time \(kappa\) must be given"):
        random_expert(0).predict(Context(tokens, tokens == 1), at)
    for table in (torch.zeros(2, 3), torch.zeros(()), torch.full((2, 2), -torch.inf)):
        with pytest.raises(ConservatorError, match="one axis"):
            EnumeratedExpert(table, MaskSource())
