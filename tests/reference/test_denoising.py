"""Denoising scores: the any-order identity, and the K-sample estimate against its exact mean."""

import pytest
import torch

from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.reference import (
    BigramExpert,
    CategoricalExpert,
    all_sequences,
    denoising_score,
    expected_denoising_score,
)


@pytest.fixture
def bigram(generator):
    return BigramExpert.random(3, 1.5, generator)


def test_schedule_weighted_scores_sum_to_the_negative_log_likelihood(bigram):
    """Section "Denoising losses": the order-averaged conditionals of a Bayes-optimal denoiser."""
    sequences = all_sequences(3, 4)
    scores = expected_denoising_score(bigram, sequences, schedule_weight=True)
    torch.testing.assert_close(scores.sum(-1), -bigram.log_density(sequences))


def test_scores_of_a_factorised_expert_are_token_log_densities(generator):
    """Without the schedule weight, and with revealed positions scored, they are half of that."""
    expert = CategoricalExpert(torch.randn(4, 3, generator=generator))
    sequences = all_sequences(3, 4)
    tokens = -expert.log_marginals[torch.arange(4), sequences]
    weighted = expected_denoising_score(expert, sequences, schedule_weight=True)
    deployed = expected_denoising_score(expert, sequences, schedule_weight=False)
    torch.testing.assert_close(weighted, tokens)
    torch.testing.assert_close(deployed, tokens / 2)


def test_the_sampled_score_is_unbiased(bigram, generator):
    sequence = torch.tensor([[2, 0, 1, 1]])
    rows = 4000
    sampled = denoising_score(Team([bigram]), sequence.expand(rows, -1), 2, generator)
    expected = expected_denoising_score(bigram, sequence, schedule_weight=False)[0]
    error = (sampled.mean(0) - expected).abs() / (sampled.std(0) / rows**0.5)
    assert (error < 4).all(), error


def test_more_samples_have_less_variance(bigram, generator):
    sequence = torch.tensor([[2, 0, 1, 1]]).expand(500, -1)
    few, many = (denoising_score(Team([bigram]), sequence, samples, generator).var(0).sum() for samples in (1, 16))
    assert many < few / 8


def test_too_many_patterns_are_refused(bigram):
    with pytest.raises(ConservatorError, match="too many"):
        expected_denoising_score(bigram, torch.zeros(2, 21, dtype=torch.long), schedule_weight=True)
    with pytest.raises(ConservatorError, match="too many"):
        expected_denoising_score(bigram, torch.zeros(2000, 12, dtype=torch.long), schedule_weight=True)
