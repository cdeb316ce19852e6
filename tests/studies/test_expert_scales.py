"""Scales of experts: derivatives against finite differences, and recovery of known scales."""

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.experts import Context, Team
from conservator.field import simplex_grid
from conservator.reference import CategoricalExpert, read_folds, score_states
from conservator_studies.expert_scales import ScaledExpert, evidence_derivatives, fit_scales, scale_predictions

SIZE, LENGTH = 5, 120


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sample_texts(powers):
    """Return two experts, and texts sampled from powers of their distributions, one expert per half."""
    logits = 1.5 * torch.randn(2, LENGTH, SIZE, generator=seeded(1))
    experts = [CategoricalExpert(rows, f"{number}") for number, rows in enumerate(logits)]
    halves = [slice(0, LENGTH // 2), slice(LENGTH // 2, LENGTH)]
    tokens = torch.zeros(60, LENGTH, dtype=torch.long)
    for expert, power, half in zip(experts, powers, halves, strict=True):
        probs = torch.softmax(power * expert.log_marginals[half], dim=-1)
        tokens[:, half] = torch.multinomial(probs, 60, True, generator=seeded(2)).T
    return Team(experts), MaskChannel(SIZE, 0.2).corrupt(tokens, seeded(3))


def test_the_derivatives_are_those_of_the_evidence():
    team, observation = sample_texts((1.0, 1.0))
    predictions = read_folds(team, observation, seeded())[0]
    weights, scales = simplex_grid(2), torch.tensor([0.7, 1.3], dtype=torch.float64)
    states = torch.softmax(torch.randn(*observation.tokens.shape, len(weights), generator=seeded(4)), -1).double()

    def value(at):
        return float((states.numpy() * score_states(scale_predictions(predictions, at), observation, weights)).sum())

    gradient, hessian = evidence_derivatives(predictions, observation, states, torch.from_numpy(weights), scales)
    step = 1e-2
    for index in range(2):
        shift = step * torch.eye(2, dtype=torch.float64)[index]
        assert float(gradient[index]) == pytest.approx(
            (value(scales + shift) - value(scales - shift)) / (2 * step), rel=1e-2
        )
        sides = [
            evidence_derivatives(predictions, observation, states, torch.from_numpy(weights), scales + sign * shift)[0]
            for sign in (1, -1)
        ]
        torch.testing.assert_close(hessian[index], (sides[0] - sides[1]) / (2 * step), rtol=1e-2, atol=1.0)
    assert (torch.linalg.eigvalsh(hessian) < 0).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_the_scale_of_a_single_expert_is_recovered(power):
    team, observation = sample_texts((power, power))
    half = observation[:, : LENGTH // 2]
    fitted = fit_scales(read_folds(team.subset([0]), half, seeded())[0], half)
    assert float(fitted.values) == pytest.approx(power, rel=0.1)


def test_every_step_raises_the_evidence():
    """The field may attribute unlikely tokens to the other expert, so the scales may differ more than the powers."""
    team, observation = sample_texts((0.5, 1.5))
    fitted = fit_scales(read_folds(team, observation, seeded())[0], observation)
    assert fitted.values.tolist() == pytest.approx((0.5, 1.5), rel=0.25)
    assert (np.diff(fitted.trace) > -1e-3).all()


def test_a_scaled_expert_predicts_a_distribution():
    expert = sample_texts((1.0, 1.0))[0].experts[0]
    at = (torch.zeros(3, dtype=torch.long), torch.arange(3))
    context = Context(torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.bool))
    unscaled, scaled = expert.predict(context, at), ScaledExpert(expert, 2.0).predict(context, at)
    torch.testing.assert_close(scaled.exp().sum(-1), torch.ones(3, dtype=scaled.dtype))
    torch.testing.assert_close(scaled, torch.log_softmax(2 * unscaled, -1))
