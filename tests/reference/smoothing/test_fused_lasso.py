"""The scalar fused lasso: against a convex solver, its optimality conditions, and its properties."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conservator.errors import ConservatorError
from conservator.reference.smoothing.fused_lasso import fused_lasso, fused_lasso_kernel

# The module needs a name: numba's cache finds the kernel by it in the next run of the tests.
PLACE = Path(__file__).parents[3] / "benchmarks" / "smoothing.py"
SPEC = importlib.util.spec_from_file_location("benchmark_of_smoothing", PLACE)
benchmark = sys.modules["benchmark_of_smoothing"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)
signals = arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5, width=32))
strengths = st.floats(0, 20)


@given(length=st.integers(2, 40), tau=st.floats(1e-3, 5), seed=st.integers(0, 10_000))
def test_it_minimises_the_objective(length, tau, seed):
    values = np.random.default_rng(seed).normal(size=length)
    # The dual, a projection onto a box, is better conditioned than the primal: a = values - D'w with |w| <= tau.
    difference = np.diff(np.eye(length), axis=0)
    dual = cvxpy.Variable(length - 1)
    residual = values - difference.T @ dual
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(residual)), [cvxpy.abs(dual) <= tau])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    np.testing.assert_allclose(fused_lasso(values, tau), residual.value, atol=1e-6)


@given(signals, strengths)
def test_the_optimality_conditions_hold(values, tau):
    """The cumulated residual stays within [-tau, tau], ends at 0, and is at the bound at every jump."""
    solution = fused_lasso(values, tau)
    dual = np.cumsum(values - solution)
    assert abs(dual[-1]) < 1e-9
    assert (np.abs(dual) <= tau + 1e-9).all()
    jumps = np.diff(solution)
    np.testing.assert_allclose(dual[:-1][jumps > 1e-9], -tau, atol=1e-9)
    np.testing.assert_allclose(dual[:-1][jumps < -1e-9], tau, atol=1e-9)


@given(signals, strengths)
def test_compiled_and_plain_code_agree(values, tau):
    """numba 0.68 miscompiled a loop of another algorithm (docs/LOG.md)."""
    if len(values) > 1 and tau > 0:
        plain = getattr(fused_lasso_kernel, "py_func", fused_lasso_kernel)(values, tau)
        np.testing.assert_allclose(fused_lasso_kernel(values, tau), plain, atol=1e-12)


@given(signals, strengths)
def test_it_keeps_the_mean_and_the_range(values, tau):
    solution = fused_lasso(values, tau)
    assert solution.mean() == pytest.approx(values.mean(), abs=1e-9)
    assert solution.min() >= values.min() - 1e-9
    assert solution.max() <= values.max() + 1e-9


@given(st.integers(1, 30), strengths, st.integers(0, 1000))
def test_it_is_non_expansive(length, tau, seed):
    first, second = np.random.default_rng(seed).normal(size=(2, length))
    distance = np.linalg.norm(fused_lasso(first, tau) - fused_lasso(second, tau))
    assert distance <= np.linalg.norm(first - second) + 1e-9


@given(signals, strengths)
def test_it_commutes_with_reversal_sign_and_shift(values, tau):
    solution = fused_lasso(values, tau)
    np.testing.assert_allclose(fused_lasso(values[::-1], tau)[::-1], solution, atol=1e-9)
    np.testing.assert_allclose(-fused_lasso(-values, tau), solution, atol=1e-9)
    np.testing.assert_allclose(fused_lasso(values + 3, tau) - 3, solution, atol=1e-9)


@given(length=st.integers(2, 200), tau=st.floats(0.01, 5), seed=st.integers(0, 1000))
def test_the_direct_algorithm_finds_the_same(length, tau, seed):
    """Condat's algorithm, the alternative in the benchmark, is a second oracle."""
    values = np.random.default_rng(seed).normal(size=length)
    np.testing.assert_allclose(benchmark.direct(values, tau), fused_lasso(values, tau), atol=1e-9)


def test_an_offset_does_not_reduce_precision():
    values = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(fused_lasso(values + 1e6, 0.5) - 1e6, fused_lasso(values, 0.5), atol=1e-9)


@given(signals)
def test_no_penalty_is_the_identity_and_an_infinite_one_the_mean(values):
    np.testing.assert_array_equal(fused_lasso(values, 0), values)
    for tau in (1e300, math.inf):
        np.testing.assert_allclose(fused_lasso(values, tau), values.mean())


def test_the_input_is_not_changed():
    values = np.array([1.0, 3.0, 2.0])
    for tau in (0.0, 0.1, 10.0):
        fused_lasso(values, tau)[:] = 0
    np.testing.assert_array_equal(values, [1.0, 3.0, 2.0])


@pytest.mark.parametrize("tau", [-1.0, math.nan])
def test_a_bad_tau_is_refused(tau):
    with pytest.raises(ConservatorError, match="at least 0"):
        fused_lasso(np.zeros(3), tau)


@pytest.mark.parametrize("values", [np.array([1.0, math.nan]), np.array([math.inf]), np.zeros((2, 2))])
def test_bad_values_are_refused(values):
    with pytest.raises(ConservatorError, match="finite vector"):
        fused_lasso(values, 1.0)


def test_it_works_without_numba():
    program = """
import sys
sys.modules["numba"] = None
import numpy as np
from conservator.reference import TotalVariation
from conservator.reference.smoothing.fused_lasso import fused_lasso
print(fused_lasso(np.array([0.0, 0.0, 3.0, 3.0]), 1.0).tolist())
field = np.eye(3)[[0, 0, 1, 1, 2, 2]]
assert TotalVariation(0.3)(field).converged
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[0.5, 0.5, 2.5, 2.5]\n"
