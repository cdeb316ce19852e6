"""The update (mw), its stopping rule, and its limit."""

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.reference import FactorisedEvidence, infer_field
from conservator.reference.solvers.exponentiated_gradient import init, step


def random_evidence(seed, experts=2, rate=0.3):
    generator = torch.Generator().manual_seed(seed)
    tables = (2 * torch.randn(experts, 6, 5, generator=generator, dtype=torch.float64)).log_softmax(-1)
    tokens = torch.randint(5, (40, 6), generator=generator)
    return FactorisedEvidence(tables, ReplacementChannel(5, rate).corrupt(tokens, generator))


@given(seed=st.integers(0, 10_000), experts=st.integers(1, 4))
def test_evidence_never_decreases_and_rows_stay_on_the_simplex(seed, experts):
    solution = infer_field(random_evidence(seed, experts), max_evaluations=1000)
    assert solution.converged == (solution.gap <= 1e-6)
    assert solution.gap <= (1e-6 if experts <= 2 else 1e-3)  # three or more can be ill-conditioned
    assert all(after >= before - 1e-12 for before, after in itertools.pairwise(solution.trace))
    assert solution.value == solution.trace[-1]
    assert len(solution.trace) <= solution.evaluations
    torch.testing.assert_close(solution.field.sum(1), torch.ones(6, dtype=torch.float64))
    assert (solution.field >= 0).all()


@given(seed=st.integers(0, 10_000))
def test_the_optimum_is_that_of_a_scalar_search(seed):
    """With two experts and a mask channel each position is concave on [0, 1]: the gap bounds the error."""
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).log_softmax(-1)
    observed = MaskChannel(5, 0.2).corrupt(torch.randint(5, (30, 3), generator=generator), generator)
    evidence = FactorisedEvidence(tables, observed)
    solution = infer_field(evidence)

    def loss(weight, position):
        field = solution.field.clone()
        field[position] = torch.tensor([weight, 1 - weight])
        return -float(evidence.value_and_gradient(field)[0])

    for position in range(3):
        best = minimize_scalar(loss, bounds=(0, 1), args=(position,), method="bounded", options={"xatol": 1e-7})
        assert -solution.value <= best.fun + 1e-6


def test_one_step_is_the_multiplicative_update():
    evidence = random_evidence(1)
    state = init(evidence, eta=0.1)
    after, accepted = step(state, evidence)
    expected = state.field * torch.exp(0.1 * state.gradient)
    torch.testing.assert_close(after.field, expected / expected.sum(1, keepdim=True))
    assert accepted
    still_rising = ((after.field - state.field) * after.gradient).sum(1) >= 0
    torch.testing.assert_close(after.eta[:, 0], torch.where(still_rising, 0.12, 0.05).double())


@given(seed=st.integers(0, 10_000), experts=st.integers(2, 4), eta=st.floats(0.01, 2))
def test_the_update_solves_the_mirror_problem_without_smoothing(seed, experts, eta):
    """Equation (mirror) at tau = 0: no other field has a larger <g, lambda> - KL(lambda | lambda^(s)) / eta."""
    evidence = random_evidence(seed, experts)
    state = init(evidence, eta)
    after, accepted = step(state, evidence)
    assume(accepted)
    update = after.field

    def reached(field):
        divergence = (field * (field / state.field).log()).sum()
        return (state.gradient * field).sum() - divergence / eta

    generator = torch.Generator().manual_seed(seed)
    for spread in (0.01, 0.1, 1.0):
        noise = spread * torch.randn(update.shape, generator=generator, dtype=torch.float64)
        assert reached(torch.softmax(update.log() + noise, dim=1)) <= reached(update) + 1e-12


def test_a_step_that_decreases_the_evidence_is_rejected():
    evidence = random_evidence(1)
    state = init(evidence, eta=1e4)
    after, accepted = step(state, evidence)
    assert not accepted
    assert (after.eta == 5e3).all()
    assert torch.equal(after.field, state.field)


def test_the_iteration_limit_is_reported():
    solution = infer_field(random_evidence(1), max_evaluations=3)
    assert not solution.converged
    assert solution.evaluations == 3
    assert solution.gap > 1e-6


def test_one_expert_has_a_field_of_ones():
    solution = infer_field(random_evidence(0, experts=1))
    assert torch.equal(solution.field, torch.ones(6, 1, dtype=torch.float64))
    assert solution.evaluations == 1


def test_an_unreachable_tolerance_gives_a_finite_field():
    """Step sizes grow at the maximum: they must not overflow and make the field nan."""
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(2, 5, 4, generator=generator).log_softmax(-1)
    observed = MaskChannel(4, 0.3).corrupt(torch.randint(4, (1, 5), generator=generator), generator)
    solution = infer_field(FactorisedEvidence(tables, observed), tolerance=0.0, max_evaluations=6000)
    assert not solution.converged
    assert 0 < solution.gap < 1e-9
    assert torch.isfinite(solution.field).all()


def test_an_impossible_observation_is_refused():
    tables = torch.zeros(2, 1, 2, dtype=torch.float64)
    observed = MaskChannel(2, 0.0).observe(torch.tensor([[2]]))
    with pytest.raises(ConservatorError, match="impossible"):
        infer_field(FactorisedEvidence(tables, observed))
