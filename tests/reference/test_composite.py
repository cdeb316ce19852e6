"""Composite evidence as a function of the field: closed forms, its gradient, and the buffer of predictions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.experts.team import TeamConfig
from conservator.field import Folds, log_pool
from conservator.reference import BigramExpert, CategoricalExpert, CompositeEvidence, FactorisedEvidence, infer_field

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2, scale=1.5):
    return Team([BigramExpert.random(SIZE, scale, seeded(seed), f"expert {seed}") for seed in range(count)])


def masked(length, seed=0, rate=0.3):
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, (length,), generator=seeded(seed)), seeded(seed + 1))


@pytest.mark.parametrize("channel", [MaskChannel(SIZE, 0.3), ReplacementChannel(SIZE, 0.3)])
def test_factorised_experts_have_their_exact_evidence(channel):
    """Positions are independent: hiding folds has no effect, and C is the paper's L."""
    table = torch.randn(3, 12, SIZE, generator=seeded())
    experts = [CategoricalExpert(rows, f"{number}") for number, rows in enumerate(table)]
    observation = channel.corrupt(torch.randint(SIZE, (12,), generator=seeded(1)), seeded(2))
    log_probs = torch.stack([expert.log_marginals for expert in experts])
    exact, team = FactorisedEvidence(log_probs, observation), Team(experts)
    with team.meter.measure() as spent:
        results = CompositeEvidence.gather(team, observation, Folds(4, 2), seeded())
    assert spent.cost.evaluations == 3 * 8
    lost = observation.lost.sum() * np.log(0.3)  # the likelihood of an erasure does not depend on the field
    for field in (torch.full((12, 3), 1 / 3).double(), torch.rand(12, 3, generator=seeded()).double().softmax(-1)):
        value, gradient = results.value_and_gradient(field)
        expected, expected_gradient = exact.value_and_gradient(field)
        torch.testing.assert_close(value + lost, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
    fields = [infer_field(evidence, tolerance=1e-5).field[~observation.lost] for evidence in (exact, results)]
    torch.testing.assert_close(*fields, rtol=0, atol=0.02)


@given(seed=st.integers(0, 40), mask=st.booleans())
def test_the_composite_gradient_is_that_of_the_evidence(seed, mask):
    channel = MaskChannel(SIZE, 0.2) if mask else ReplacementChannel(SIZE, 0.2)
    observation = channel.corrupt(torch.randint(SIZE, (6,), generator=seeded(seed)), seeded(seed))
    evidence = CompositeEvidence.gather(bigrams(2), observation, Folds(2), seeded(seed))
    field = torch.rand(6, 2, generator=seeded(seed)).double().requires_grad_()
    value, gradient = evidence.value_and_gradient(field)
    (expected,) = torch.autograd.grad(value, field)
    torch.testing.assert_close(gradient.detach(), expected, rtol=1e-6, atol=1e-6)


def test_the_composite_gradient_agrees_with_finite_differences():
    observation = ReplacementChannel(SIZE, 0.2).observe(torch.randint(SIZE, (6,), generator=seeded()))
    evidence = CompositeEvidence.gather(bigrams(), observation, Folds(2, 2), seeded())
    field = torch.rand(6, 2, generator=seeded(), dtype=torch.float64).softmax(-1)
    _, gradient = evidence.value_and_gradient(field)
    for position in range(6):
        for expert in range(2):
            step = torch.zeros_like(field)
            step[position, expert] = 1e-5
            up, down = (evidence.value_and_gradient(field + sign * step)[0] for sign in (1, -1))
            assert float((up - down) / 2e-5) == pytest.approx(float(gradient[position, expert]), abs=1e-6)


def test_without_the_prior_term_the_gradient_is_the_posterior_mean():
    observation = masked(8)
    with_prior = CompositeEvidence.gather(bigrams(), observation, Folds(2), seeded())
    without = CompositeEvidence.gather(bigrams(), observation, Folds(2), seeded(), prior_term=False)
    field = torch.full((8, 2), 0.5).double()
    difference = without.value_and_gradient(field)[1] - with_prior.value_and_gradient(field)[1]
    count = 0
    for position, log_probs in without.predictions:
        pool = log_pool(log_probs.double(), field[position])
        expected = torch.einsum("nv,inv->ni", pool.exp(), log_probs.double())
        torch.testing.assert_close(difference[position], expected)
        count += len(position)
    assert count == int((~observation.lost).sum())


def test_predictions_on_disk_equal_predictions_in_memory(monkeypatch):
    observation, field = ReplacementChannel(SIZE, 0.2).observe(masked(40).tokens), torch.full((40, 2), 0.5).double()
    monkeypatch.setattr("conservator.experts.team.TEAM_CONFIG", TeamConfig(part_bytes=300))  # a few positions at a time
    results = []
    for limit in (2**20, 1000, 0):
        monkeypatch.setattr("conservator.reference.evidence.spill_buffer.MAX_MEMORY_BYTES", limit)
        evidence = CompositeEvidence.gather(bigrams(), observation, Folds(2, 2), seeded())
        for _ in range(2):  # the buffer is iterated repeatedly
            results.append((*evidence.value_and_gradient(field), evidence.correct_probs(field)))
    for result in results[1:]:
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(result, results[0], strict=True))


def test_predictions_beyond_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr("conservator.reference.evidence.spill_buffer.MAX_TOTAL_BYTES", 1000)
    expert = BigramExpert(torch.zeros(2), torch.zeros(2, 2))
    observation = MaskChannel(2, 0.1).observe(torch.zeros(64, dtype=torch.long))
    with pytest.raises(ConservatorError, match="at most 1000 bytes"):
        CompositeEvidence.gather(Team([expert] * 3), observation, Folds(5), seeded())
