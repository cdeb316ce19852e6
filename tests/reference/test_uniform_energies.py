"""Energies by the identity: they sum to the negative log-likelihood, and the estimate is unbiased."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.experts import UniformSource
from conservator.experts.uniform import cavity
from conservator.reference import (
    CategoricalExpert,
    EnumeratedExpert,
    all_sequences,
    expected_energies,
    sampled_energies,
    uniform_denoising_score,
)
from conservator.reference.uniform.energies import averaged_terms, local_terms
from support.uniform_experts import SEQUENCES, SIZE, channel, random_expert, uniform_table

ROWS = 3000


def test_energies_sum_to_the_negative_log_likelihood():
    """For a fixed joint distribution, and for random ones."""
    drawn = np.random.default_rng(0).dirichlet(np.full(27, 0.5))
    first = EnumeratedExpert(torch.from_numpy(drawn).log().reshape(3, 3, 3), UniformSource())
    for expert in [first, *(random_expert(seed, 2.0) for seed in range(3))]:
        total = expected_energies(expert, SEQUENCES).sum(-1)
        torch.testing.assert_close(total, -expert.log_density(SEQUENCES), rtol=0, atol=1e-6)


def test_energies_of_independent_positions_are_token_log_densities(generator):
    rows = torch.log_softmax(torch.randn(3, SIZE, generator=generator, dtype=torch.float64), dim=-1)
    joint = rows[0][:, None, None] + rows[1][:, None] + rows[2]
    energies = expected_energies(EnumeratedExpert(joint, UniformSource()), SEQUENCES)
    torch.testing.assert_close(energies, -rows[torch.arange(3), SEQUENCES], rtol=0, atol=1e-6)


def flow_matching_bound(expert, nodes=200):
    """The generalised-KL bound of flow matching on -log q(x), for all sequences, exactly averaged over x_t."""
    total = torch.zeros(len(SEQUENCES), dtype=torch.float64)
    same = SEQUENCES[:, None] == SEQUENCES
    points, weights = np.polynomial.legendre.leggauss(nodes)
    for kappa, mass in zip((points + 1) / 2, weights / 2, strict=True):
        log_probs, state_probs = uniform_table(expert, SEQUENCES, kappa), channel(kappa)
        at_token = log_probs.gather(-1, SEQUENCES[..., None])[..., 0].exp()  # of the clean token
        at_state = torch.stack(
            [log_probs[:, position, SEQUENCES[:, position]].T for position in range(SEQUENCES.shape[1])], dim=-1
        )
        terms = -(at_token - same.double() + torch.where(same, 0.0, at_state)) / (1 - kappa)
        total += mass * torch.einsum("xs,xsl->x", state_probs, terms)
    return total


def test_the_bound_of_flow_matching_has_a_gap_and_the_identity_has_none():
    drawn = np.random.default_rng(0).dirichlet(np.full(27, 0.5))
    expert = EnumeratedExpert(torch.from_numpy(drawn).log().reshape(3, 3, 3), UniformSource())
    gap = flow_matching_bound(expert) + expert.log_density(SEQUENCES)
    assert gap.min() > 0.5
    assert gap.max() < 1.5


@given(seed=st.integers(0, 1000), scale=st.floats(0, 4), kappa=st.floats(1e-3, 1 - 1e-3), size=st.integers(2, 6))
def test_the_averaged_term_is_the_mean_over_noised_tokens(seed, scale, kappa, size):
    generator = torch.Generator().manual_seed(seed)
    log_prob_row = torch.log_softmax(scale * torch.randn(1, size, generator=generator, dtype=torch.float64), dim=-1)
    rows, token = log_prob_row.expand(size, -1), torch.zeros(size, dtype=torch.long)
    times = torch.full((size,), kappa, dtype=torch.float64)
    terms = local_terms(rows, torch.arange(size), token, times)
    state_probs = kappa * (torch.arange(size) == 0).double() + (1 - kappa) / size
    assert float(averaged_terms(log_prob_row, token[:1], times[:1])) == pytest.approx(
        float(state_probs @ terms), rel=1e-9, abs=1e-12
    )
    assert (terms >= -1e-12).all()


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), which=st.integers(0, len(SEQUENCES) - 1))
def test_the_sampled_energies_are_unbiased(seed, which):
    expert, sequence = random_expert(seed, 1.5), SEQUENCES[which : which + 1]
    generator = torch.Generator().manual_seed(seed)
    sampled = sampled_energies(expert, sequence.expand(ROWS, -1), 2, generator)
    error = (sampled.mean(0) - expected_energies(expert, sequence)[0]).abs() / (sampled.std(0) / ROWS**0.5)
    assert (error < 4.5).all(), error


def test_more_samples_have_less_variance(generator):
    expert, sequences = random_expert(3), SEQUENCES[5:6].expand(500, -1)
    few, many = (sampled_energies(expert, sequences, samples, generator).var(0).sum() for samples in (1, 8))
    assert many < few / 6


def test_a_latest_time_below_one_has_a_small_bias(generator):
    expert, sequences = random_expert(3), SEQUENCES[5:6].expand(2000, -1)
    whole = expected_energies(expert, sequences[:1])[0]
    part = sampled_energies(expert, sequences, 4, generator, latest=0.95).mean(0)
    torch.testing.assert_close(part, whole, rtol=0.05, atol=0.02)


def test_the_denoising_score_is_the_mean_loss_over_times(generator):
    """Against a quadrature over times and all noisings."""
    expert, which = random_expert(4), 11
    expected = torch.zeros(3, dtype=torch.float64)
    points, weights = np.polynomial.legendre.leggauss(40)
    for kappa, mass in zip((points + 1) / 2, weights / 2, strict=True):
        log_probs = uniform_table(expert, SEQUENCES, kappa)
        expected -= mass * (channel(kappa)[which] @ log_probs[:, torch.arange(3), SEQUENCES[which]])
    sampled = uniform_denoising_score(expert, SEQUENCES[which : which + 1].expand(ROWS, -1), 2, generator)
    error = (sampled.mean(0) - expected).abs() / (sampled.std(0) / ROWS**0.5)
    assert (error < 4).all(), error
    assert abs(expected.sum() + expert.log_density(SEQUENCES[which : which + 1])) > 0.1  # not a likelihood


def test_too_many_noisings_are_refused():
    expert = EnumeratedExpert(torch.zeros([2] * 11), UniformSource())
    with pytest.raises(ConservatorError, match="too many"):
        expected_energies(expert, all_sequences(2, 11)[:1000])


def test_a_cavity_of_a_factorised_distribution_is_its_marginal(generator):
    """The cavity does not depend on the context: the energies agree with those of a mask-source oracle."""
    table = CategoricalExpert(torch.randn(3, SIZE, generator=generator)).log_marginals
    expert = EnumeratedExpert(table[0][:, None, None] + table[1][:, None] + table[2], UniformSource())
    rows = uniform_table(expert, SEQUENCES, 0.6)
    for position in range(3):
        cavities = cavity(rows[:, position], SEQUENCES[:, position], torch.full((27,), 0.6))
        torch.testing.assert_close(cavities, table[position].expand(27, -1))
