"""The maximum of composite evidence under total variation, against a convex solver."""

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Predictions
from conservator.reference import CompositeEvidence, maximise
from conservator.reference.evidence.spill_buffer import SpillBuffer
from conservator.reference.solvers.maximum import variation

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def known_evidence(log_probs, observation):
    """The evidence of ``log_probs`` (m, L, V) at the visible positions."""
    position = (~observation.lost).nonzero()[:, 0]
    predictions = SpillBuffer()
    predictions.add(Predictions(torch.zeros_like(position), position, log_probs[:, position]))
    return CompositeEvidence(predictions, observation, len(log_probs), 1), position


@given(
    seed=st.integers(0, 30), experts=st.integers(2, 4), length=st.integers(1, 12), tau=st.sampled_from([0.0, 0.3, 2.0])
)
def test_the_maximum_is_that_of_a_convex_solver(seed, experts, length, tau):
    log_probs = torch.log_softmax(2 * torch.randn(experts, length, SIZE, generator=seeded(seed)), dim=-1)
    tokens = torch.randint(SIZE, (length,), generator=seeded(seed))
    observation = MaskChannel(SIZE, 0.3).corrupt(tokens, seeded(seed + 1))
    evidence, position = known_evidence(log_probs, observation)
    solution = maximise(evidence, tau, tolerance=1e-4)
    assert solution.converged
    assert (solution.field >= 0).all()
    np.testing.assert_allclose(solution.field.sum(dim=1), 1)
    field, table = cvxpy.Variable((length, experts)), log_probs.double().numpy()
    terms = [
        field[index] @ table[:, index, observation.tokens[index]] - cvxpy.log_sum_exp(table[:, index].T @ field[index])
        for index in position.tolist()
    ]
    penalty = tau * cvxpy.sum(cvxpy.abs(field[1:] - field[:-1])) if length > 1 else 0
    constraints = [field >= 0, cvxpy.sum(field, axis=1) == 1]
    problem = cvxpy.Problem(cvxpy.Maximize(sum(terms, cvxpy.Constant(0)) - penalty), constraints)
    problem.solve(solver=cvxpy.CLARABEL)
    optimum = problem.value + len(position) * np.log(0.7)
    assert optimum - solution.gap - 1e-5 <= solution.value <= optimum + 1e-5
    assert solution.value == pytest.approx(
        float(evidence.value_and_gradient(solution.field)[0]) - tau * variation(solution.field.numpy())
    )


@pytest.mark.parametrize("tau", [-1.0, np.inf, np.nan])
def test_a_bad_tau_is_refused(tau):
    observation = MaskChannel(SIZE, 0.3).observe(torch.zeros(3, dtype=torch.long))
    with pytest.raises(ConservatorError, match="finite and not negative"):
        maximise(known_evidence(torch.zeros(2, 3, SIZE), observation)[0], tau)
