"""Properties of every smoother, in one list, and the proximal maps against a convex solver."""

import math

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.reference import MovingAverage, PerColumn, TotalVariation
from conservator.reference.smoothing.simplex import project_to_simplex, simplex_prox_kernel

SMOOTHERS = [
    TotalVariation(0.0),
    TotalVariation(0.3),
    TotalVariation(2.0),
    TotalVariation(math.inf),
    PerColumn(0.3),
    PerColumn(math.inf),
    MovingAverage(0.3),
    MovingAverage(1.0),
]
smoothers = pytest.mark.parametrize("smoother", SMOOTHERS, ids=str)
shapes = given(length=st.integers(1, 40), experts=st.integers(1, 5), seed=st.integers(0, 10_000))


def random_field(length, experts, seed):
    """Rows on the simplex: domain segments, noise, and exact vertices."""
    random = np.random.default_rng(seed)
    regions = np.eye(experts)[np.repeat(random.integers(experts, size=length), random.integers(1, 9))[:length]]
    noise = random.dirichlet(np.full(experts, 0.7), size=length)
    sharp = random.random((length, 1)) < 0.3
    return np.where(sharp, regions, 0.5 * regions + 0.5 * noise)


PRECISE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def solve_simplex(field, tau):
    """Equation (prox) by an interior-point method."""
    variable = cvxpy.Variable(field.shape)
    objective = 0.5 * cvxpy.sum_squares(variable - field) + tau * cvxpy.sum(cvxpy.abs(cvxpy.diff(variable, axis=0)))
    cvxpy.Problem(cvxpy.Minimize(objective), [variable >= 0, cvxpy.sum(variable, axis=1) == 1]).solve(**PRECISE)
    return variable.value


exact = given(length=st.integers(2, 40), experts=st.integers(2, 5), seed=st.integers(0, 10_000), tau=st.floats(0.01, 3))


@exact
def test_total_variation_is_the_proximal_map_on_the_simplex(length, experts, seed, tau):
    """Equation (prox)."""
    field = random_field(length, experts, seed)
    smoothed = TotalVariation(tau)(field)
    assert smoothed.converged
    np.testing.assert_allclose(smoothed.field, solve_simplex(field, tau), atol=1e-5)


def objective(field, target, tau):
    return 0.5 * ((field - target) ** 2).sum() + tau * np.abs(np.diff(field, axis=0)).sum()


@exact
def test_the_gap_bounds_the_improvement_of_any_other_field(length, experts, seed, tau):
    field = random_field(length, experts, seed)
    smoothed = TotalVariation(tau)(field)
    for alternative in (field, random_field(length, experts, seed + 1), PerColumn(tau)(field).field):
        assert objective(smoothed.field, field, tau) <= objective(alternative, field, tau) + smoothed.gap + 1e-12


@smoothers
@shapes
def test_rows_stay_on_the_simplex(smoother, length, experts, seed):
    smoothed = smoother(random_field(length, experts, seed)).field
    assert smoothed.shape == (length, experts)
    assert (smoothed >= 0).all()
    np.testing.assert_allclose(smoothed.sum(axis=1), 1, atol=1e-9)


@smoothers
@shapes
def test_permuting_experts_permutes_columns(smoother, length, experts, seed):
    field = random_field(length, experts, seed)
    order = np.random.default_rng(seed).permutation(experts)
    np.testing.assert_allclose(smoother(field[:, order]).field, smoother(field).field[:, order], atol=1e-5)


@smoothers
@shapes
def test_a_constant_field_is_unchanged(smoother, length, experts, seed):
    field = np.broadcast_to(random_field(1, experts, seed), (length, experts))
    np.testing.assert_allclose(smoother(field).field, field, atol=1e-9)


@pytest.mark.parametrize("smoother", [*SMOOTHERS[:4], *SMOOTHERS[6:9]], ids=str)
@shapes
def test_proximal_maps_are_non_expansive(smoother, length, experts, seed):
    first, second = random_field(length, experts, seed), random_field(length, experts, seed + 1)
    distance = np.linalg.norm(smoother(first).field - smoother(second).field)
    assert distance <= np.linalg.norm(first - second) + 1e-5


@pytest.mark.parametrize("kind", [TotalVariation, PerColumn, MovingAverage])
@shapes
def test_no_strength_is_the_identity(kind, length, experts, seed):
    field = random_field(length, experts, seed)
    np.testing.assert_allclose(kind(0.0)(field).field, field, atol=1e-12)


@pytest.mark.parametrize("kind", [TotalVariation, PerColumn])
@shapes
def test_infinite_strength_is_the_mean(kind, length, experts, seed):
    field = random_field(length, experts, seed)
    expected = np.broadcast_to(field.mean(axis=0), field.shape)
    np.testing.assert_allclose(kind(math.inf)(field).field, expected, atol=1e-12)


@given(length=st.integers(1, 40), seed=st.integers(0, 10_000), tau=st.floats(0, 3))
def test_two_experts_keep_column_means_and_need_no_iterations(length, seed, tau):
    field = random_field(length, 2, seed)
    smoothed = TotalVariation(tau)(field)
    assert smoothed.iterations == 0
    assert smoothed.gap == 0
    np.testing.assert_allclose(smoothed.field.mean(axis=0), field.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(PerColumn(tau)(field).field, smoothed.field, atol=1e-9)


@smoothers
def test_rounding_errors_off_the_simplex_are_corrected(smoother):
    field = np.array([[1 + 5e-7, -5e-7, 0.0], [0.0, 1.0, 0.0]])
    for part in (field, field[:, :2]):
        smoothed = smoother(part).field
        assert (smoothed >= 0).all()
        np.testing.assert_allclose(smoothed.sum(axis=1), 1, atol=1e-12)


@smoothers
def test_any_memory_layout_is_supported(smoother):
    field = random_field(20, 3, 0)
    field.setflags(write=False)
    expected = smoother(field).field
    np.testing.assert_allclose(smoother(np.asfortranarray(field)).field, expected, atol=1e-12)
    np.testing.assert_allclose(smoother(field.astype(np.float32)).field, expected, atol=1e-5)


@pytest.mark.parametrize("experts", [2, 3, 5])
def test_compiled_and_plain_solvers_agree(experts):
    target = np.ascontiguousarray(random_field(12, experts, 0).T)
    zero = np.zeros_like(target)
    calls = [
        (project_to_simplex, (target - 0.3,)),
        (simplex_prox_kernel, (target, 0.3, 0.0, 40, target, zero)),
    ]
    for kernel, arguments in calls:
        plain = getattr(kernel, "py_func", kernel)(*arguments)
        np.testing.assert_allclose(kernel(*arguments)[0], plain[0], atol=1e-12)


def test_the_per_column_variant_is_not_the_proximal_map():
    field = random_field(200, 3, 0)
    ours, theirs = TotalVariation(0.4)(field).field, PerColumn(0.4)(field).field
    assert objective(theirs, field, 0.4) > 1.001 * objective(ours, field, 0.4)


def test_the_moving_average_by_hand():
    """Width 5, five taps of 1/5, zeros beyond the ends, blended, rows renormalised."""
    first = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    smoothed = MovingAverage(0.3)(np.stack([first, 1 - first], axis=1)).field
    average = np.array([[1, 2], [1, 3], [1, 4], [1, 4], [2, 3], [2, 2], [2, 1]]) / 5
    blend = 0.7 * np.stack([first, 1 - first], axis=1) + 0.3 * average
    np.testing.assert_allclose(smoothed, blend / blend.sum(axis=1, keepdims=True))


@given(experts=st.integers(1, 6), seed=st.integers(0, 1000))
def test_projection_is_the_nearest_point_of_the_simplex(experts, seed):
    """Against the optimality conditions: p = max(x - t, 0) with one t per column, summing to 1."""
    points = np.random.default_rng(seed).normal(size=(experts, 8)) * 2
    projected = project_to_simplex(points)
    np.testing.assert_allclose(projected.sum(axis=0), 1)
    for point, nearest in zip(points.T, projected.T, strict=True):
        shift = (point - nearest)[nearest > 0]
        np.testing.assert_allclose(shift, shift[0])
        assert (point[nearest == 0] <= shift[0] + 1e-12).all()


@pytest.mark.parametrize("kind", [TotalVariation, PerColumn, MovingAverage])
@pytest.mark.parametrize("tau", [-0.1, math.nan])
def test_a_bad_strength_is_refused(kind, tau):
    with pytest.raises(ConservatorError, match="tau"):
        kind(tau)


@pytest.mark.parametrize(("tau", "width"), [(1.5, 5), (0.5, 4), (0.5, 0)])
def test_a_bad_moving_average_is_refused(tau, width):
    with pytest.raises(ConservatorError):
        MovingAverage(tau, width)


@smoothers
@pytest.mark.parametrize(
    ("field", "message"),
    [
        (np.array([[0.5, 0.5], [0.7, 0.7]]), "on the simplex, got .* in row 1"),
        (np.array([[1.5, -0.5]]), "on the simplex, got .* in row 0"),
        (np.array([[math.nan, 1.0]]), "on the simplex, got .* in row 0"),
        (np.zeros(3), "shape"),
        (np.zeros((0, 2)), "shape"),
    ],
)
def test_invalid_fields_are_refused(smoother, field, message):
    with pytest.raises(ConservatorError, match=message):
        smoother(field)
