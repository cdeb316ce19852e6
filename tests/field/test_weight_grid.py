"""Lattices and priors, and forward-backward against all paths."""

from itertools import pairwise, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.errors import ConservatorError
from conservator.field import constant, grid_posterior, laplace, posterior, simplex_grid, sticky, two_level
from conservator.field.forward_backward import posterior_kernel


def some_priors(weights):
    return [
        constant(weights),
        sticky(weights, 0.1),
        laplace(weights, 1.5),
        two_level(weights, 0.1, 0.3, 0.7),
        two_level(weights, 0.01, 0.5, 0.4),
    ]


@pytest.mark.parametrize(("experts", "parts"), [(1, 1), (1, 3), (2, 1), (2, 4), (3, 2), (4, 3)])
def test_a_lattice_has_every_point_once_and_the_vertices_first(experts, parts):
    weights = simplex_grid(experts, parts)
    assert weights.shape == (comb(experts + parts - 1, parts), experts)
    assert len(np.unique(weights, axis=0)) == len(weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights * parts, np.round(weights * parts))
    np.testing.assert_array_equal(weights[:experts], np.eye(experts))


@pytest.mark.parametrize("experts", [1, 2, 3])
def test_priors_are_stochastic(experts):
    for prior in some_priors(simplex_grid(experts, 2)):
        np.testing.assert_allclose(prior.initial.sum(), 1)
        np.testing.assert_allclose(prior.weights.sum(axis=1), 1)
        np.testing.assert_allclose(prior.regions.sum(axis=1), 1)
        if prior.transition is not None:
            np.testing.assert_allclose(prior.transition.sum(axis=1), 1)
            assert (prior.transition >= 0).all()
            # The first law is that of every later position too, but for laplace, whose ends are rarer.
            if not prior.name.startswith("laplace"):
                np.testing.assert_allclose(prior.initial @ prior.transition, prior.initial)


def by_enumeration(emissions, prior):
    length, states = emissions.shape
    total, law = 0.0, np.zeros((length, states))
    for path in product(range(states), repeat=length):
        weight = prior.initial[path[0]]
        for before, after in pairwise(path):
            weight *= float(before == after) if prior.transition is None else prior.transition[before, after]
        weight *= np.exp(sum(emissions[place, state] for place, state in enumerate(path)))
        total += weight
        for place, state in enumerate(path):
            law[place, state] += weight
    return np.log(total), law / total


@given(
    experts=st.integers(1, 3),
    parts=st.integers(1, 2),
    length=st.integers(1, 3),
    scale=st.floats(0, 20),
    seed=st.integers(0, 1000),
    kind=st.integers(0, 4),
)
def test_forward_backward_sums_over_all_paths(experts, parts, length, scale, seed, kind):
    prior = some_priors(simplex_grid(experts, parts))[kind]
    emissions = scale * np.random.default_rng(seed).normal(size=(length, len(prior.weights)))
    evidence, law = posterior(emissions, prior)
    expected_evidence, expected = by_enumeration(emissions, prior)
    np.testing.assert_allclose(evidence, expected_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law, expected, atol=1e-9)


@given(
    experts=st.integers(1, 3),
    length=st.integers(1, 12),
    scale=st.floats(0, 20),
    seed=st.integers(0, 1000),
    kind=st.integers(0, 4),
)
def test_positions_that_are_left_out_are_positions_without_evidence(experts, length, scale, seed, kind):
    """The chain passes them by: the same posterior as with emissions of zero there."""
    prior, rng = some_priors(simplex_grid(experts, 2))[kind], np.random.default_rng(seed)
    skipped = np.where(rng.random(length) < 0.4, rng.integers(0, 40, size=length), 0)
    kept = np.cumsum(skipped + 1) - 1
    emissions = scale * rng.normal(size=(length, len(prior.weights)))
    whole = np.zeros((kept[-1] + 1 + int(rng.integers(0, 30)), len(prior.weights)))  # it may go on after the last
    whole[kept] = emissions
    evidence, law = posterior(emissions, prior, skipped)
    expected_evidence, expected = posterior(whole, prior)
    np.testing.assert_allclose(evidence, expected_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law, expected[kept], rtol=1e-9, atol=1e-15)


def test_the_posterior_of_an_excerpt_is_that_of_the_whole():
    rng, weights = np.random.default_rng(0), simplex_grid(2, 2)
    kept = np.concatenate([np.arange(3, 40), np.arange(300, 350)])
    emissions = 2 * rng.normal(size=(len(kept), len(weights)))
    whole = np.zeros((500, len(weights)))
    whole[kept] = emissions
    found = grid_posterior(emissions, weights, skipped=np.diff(kept, prepend=-1) - 1)
    expected = grid_posterior(whole, weights)
    assert found.prior == expected.prior
    assert found.evidences == pytest.approx(expected.evidences, rel=1e-9)
    for name in ("field", "regions", "owners", "states"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name)[kept], rtol=1e-9, atol=1e-15)


def test_the_compiled_kernel_is_the_plain_one():
    prior = two_level(simplex_grid(3, 2), 0.01, 0.2, 0.7)
    emissions = 5 * np.random.default_rng(0).normal(size=(50, 18))
    plain = getattr(posterior_kernel, "py_func", posterior_kernel)
    jump, powers = np.full(50, -1), np.linalg.matrix_power(prior.transition, 7)[None]
    for skips in ([], [0, 3, 20]):
        jump[skips] = 0
        given = emissions, prior.initial, prior.transition, jump, powers
        ours, theirs = (kernel(*given) for kernel in (posterior_kernel, plain))
        np.testing.assert_allclose(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1])


def test_overwhelming_evidence_does_not_overflow():
    weights = simplex_grid(2, 1)
    emissions = np.zeros((2000, 2))
    emissions[:1000, 1] = emissions[1000:, 0] = -9000.0
    for prior in (sticky(weights, 0.01), two_level(weights, 0.01, 0.2, 0.7), constant(weights)):
        evidence, law = posterior(np.tile(emissions, (1, len(prior.weights) // 2)), prior)
        assert np.isfinite(evidence)
        assert np.isfinite(law).all()


def test_no_evidence_leaves_the_prior():
    weights = simplex_grid(3, 2)
    for prior in some_priors(weights):
        evidence, law = posterior(np.zeros((7, len(prior.weights))), prior)
        assert evidence == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(law[0], prior.initial, atol=1e-12)
    found = grid_posterior(np.zeros((7, 6)), weights)
    np.testing.assert_allclose(found.field, 1 / 3)
    np.testing.assert_allclose(found.regions, 1 / 3)


def test_the_evidence_chooses_the_prior_that_made_the_field():
    rng = np.random.default_rng(0)
    weights = simplex_grid(2, 1)
    one, two = np.zeros((400, 2)), np.zeros((400, 2))
    one[:, 1] = -1.0  # the same expert throughout
    two[:200, 1] = two[200:, 0] = -1.0  # a change in the middle
    noise = rng.normal(size=(400, 2))
    priors = [constant(weights), sticky(weights, 0.01)]
    assert grid_posterior(one + noise, weights, priors).prior == "constant"
    found = grid_posterior(two + noise, weights, priors)
    assert found.prior == "sticky 0.01"
    assert (found.regions.argmax(axis=1) == np.repeat([0, 1], 200)).mean() > 0.98
    assert found.log_evidence == max(found.evidences.values())


def test_only_a_prior_that_knows_regions_attributes():
    rng = np.random.default_rng(0)
    weights = simplex_grid(2, 1)
    truth = rng.integers(2, size=60).repeat(10)  # compositions that change all the time
    emissions = np.where(np.arange(2) == truth[:, None], 0.0, -3.0)
    regions, loose = two_level(weights, 0.003, 0.2, 0.95), sticky(weights, 0.1)
    found = grid_posterior(emissions, weights, [regions, loose])
    assert found.prior == loose.name
    np.testing.assert_array_equal(found.field, grid_posterior(emissions, weights, [loose]).field)
    np.testing.assert_array_equal(found.regions, grid_posterior(emissions, weights, [regions]).regions)
    np.testing.assert_array_equal(found.owners, found.field)


@pytest.mark.parametrize("call", [
    lambda w: sticky(w, 0.0),
    lambda w: sticky(w, 1.5),
    lambda w: laplace(w, -1.0),
    lambda w: laplace(w, np.inf),
    lambda w: two_level(w, 0.1, 0.0, 0.5),
    lambda w: simplex_grid(0, 1),
    lambda w: simplex_grid(10, 12),
    lambda w: grid_posterior(np.zeros((4, 5)), w),
    lambda w: grid_posterior(np.full((4, 6), -np.inf), w),
])  # fmt: skip
def test_impossible_settings_are_said(call):
    with pytest.raises(ConservatorError):
        call(simplex_grid(3, 2))


def test_more_states_than_a_table_holds_are_refused():
    with pytest.raises(ConservatorError, match="take fewer parts"):
        two_level(simplex_grid(6, 7), 0.1, 0.2, 0.9)
