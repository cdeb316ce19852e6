"""Scales of experts: their derivatives by differences, and scales that are known."""

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.experts import Context, Team
from conservator.field import simplex_grid
from conservator.reference import CategoricalExpert, read_folds, score_states
from conservator_studies.scales import Scaled, derivatives, fit_scales, scaled

SIZE, LENGTH = 5, 120


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def texts(powers):
    """Texts of two halves, of the laws of two experts raised to ``powers``, and the experts."""
    logits = 1.5 * torch.randn(2, LENGTH, SIZE, generator=seeded(1))
    experts = [CategoricalExpert(rows, f"{number}") for number, rows in enumerate(logits)]
    halves = [slice(0, LENGTH // 2), slice(LENGTH // 2, LENGTH)]
    tokens = torch.zeros(60, LENGTH, dtype=torch.long)
    for expert, power, half in zip(experts, powers, halves, strict=True):
        law = torch.softmax(power * expert.log_marginals[half], dim=-1)
        tokens[:, half] = torch.multinomial(law, 60, True, generator=seeded(2)).T
    return Team(experts), MaskChannel(SIZE, 0.2).corrupt(tokens, seeded(3))


def test_the_derivatives_are_those_of_the_evidence():
    team, observation = texts((1.0, 1.0))
    read = read_folds(team, observation, seeded())[0]
    weights, scales = simplex_grid(2), torch.tensor([0.7, 1.3], dtype=torch.float64)
    states = torch.softmax(torch.randn(*observation.tokens.shape, len(weights), generator=seeded(4)), -1).double()

    def value(at):
        return float((states.numpy() * score_states(scaled(read, at), observation, weights)).sum())

    gradient, hessian = derivatives(read, observation, states, torch.from_numpy(weights), scales)
    step = 1e-2
    for one in range(2):
        by = step * torch.eye(2, dtype=torch.float64)[one]
        assert float(gradient[one]) == pytest.approx((value(scales + by) - value(scales - by)) / (2 * step), rel=1e-2)
        sides = [derivatives(read, observation, states, torch.from_numpy(weights), scales + s * by)[0] for s in (1, -1)]
        torch.testing.assert_close(hessian[one], (sides[0] - sides[1]) / (2 * step), rtol=1e-2, atol=1.0)
    assert (torch.linalg.eigvalsh(hessian) < 0).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_the_scale_of_one_expert_is_found(power):
    team, observation = texts((power, power))
    half = observation[:, : LENGTH // 2]
    found = fit_scales(read_folds(team.subset([0]), half, seeded())[0], half)
    assert float(found.values) == pytest.approx(power, rel=0.1)


def test_every_step_raises_the_evidence():
    """The field may attribute tokens that do not fit to others, so that scales are further apart than the powers."""
    team, observation = texts((0.5, 1.5))
    found = fit_scales(read_folds(team, observation, seeded())[0], observation)
    assert found.values.tolist() == pytest.approx((0.5, 1.5), rel=0.25)
    assert (np.diff(found.trace) > -1e-3).all()


def test_a_scaled_expert_predicts_a_law():
    expert = texts((1.0, 1.0))[0].experts[0]
    at = (torch.zeros(3, dtype=torch.long), torch.arange(3))
    context = Context(torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.bool))
    plain, raised = expert.predict(context, at), Scaled(expert, 2.0).predict(context, at)
    torch.testing.assert_close(raised.exp().sum(-1), torch.ones(3, dtype=raised.dtype))
    torch.testing.assert_close(raised, torch.log_softmax(2 * plain, -1))
