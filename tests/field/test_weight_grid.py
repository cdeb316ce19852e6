"""Weight grids and Markov priors; forward-backward against the sum over all paths."""

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


@pytest.mark.parametrize(("experts", "resolution"), [(1, 1), (1, 3), (2, 1), (2, 4), (3, 2), (4, 3)])
def test_a_grid_has_every_point_once_and_the_vertices_first(experts, resolution):
    weights = simplex_grid(experts, resolution)
    assert weights.shape == (comb(experts + resolution - 1, resolution), experts)
    assert len(np.unique(weights, axis=0)) == len(weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights * resolution, np.round(weights * resolution))
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
            # The initial distribution is stationary, except for laplace, where vertices become rarer.
            if not prior.name.startswith("laplace"):
                np.testing.assert_allclose(prior.initial @ prior.transition, prior.initial)


def by_enumeration(emissions, prior):
    length, states = emissions.shape
    total, probs = 0.0, np.zeros((length, states))
    for path in product(range(states), repeat=length):
        weight = prior.initial[path[0]]
        for before, after in pairwise(path):
            weight *= float(before == after) if prior.transition is None else prior.transition[before, after]
        weight *= np.exp(sum(emissions[position, state] for position, state in enumerate(path)))
        total += weight
        for position, state in enumerate(path):
            probs[position, state] += weight
    return np.log(total), probs / total


@given(
    experts=st.integers(1, 3),
    resolution=st.integers(1, 2),
    length=st.integers(1, 3),
    scale=st.floats(0, 20),
    seed=st.integers(0, 1000),
    kind=st.integers(0, 4),
)
def test_forward_backward_sums_over_all_paths(experts, resolution, length, scale, seed, kind):
    prior = some_priors(simplex_grid(experts, resolution))[kind]
    emissions = scale * np.random.default_rng(seed).normal(size=(length, len(prior.weights)))
    evidence, probs = posterior(emissions, prior)
    expected_evidence, expected = by_enumeration(emissions, prior)
    np.testing.assert_allclose(evidence, expected_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(probs, expected, atol=1e-9)


@given(
    experts=st.integers(1, 3),
    length=st.integers(1, 12),
    scale=st.floats(0, 20),
    seed=st.integers(0, 1000),
    kind=st.integers(0, 4),
)
def test_skipped_positions_are_positions_without_evidence(experts, length, scale, seed, kind):
    """The posterior is the same as with emissions of zero at these positions."""
    prior, rng = some_priors(simplex_grid(experts, 2))[kind], np.random.default_rng(seed)
    skipped = np.where(rng.random(length) < 0.4, rng.integers(0, 40, size=length), 0)
    included = np.cumsum(skipped + 1) - 1
    emissions = scale * rng.normal(size=(length, len(prior.weights)))
    whole = np.zeros(
        (included[-1] + 1 + int(rng.integers(0, 30)), len(prior.weights))
    )  # the sequence may continue after the last
    whole[included] = emissions
    evidence, probs = posterior(emissions, prior, skipped)
    expected_evidence, expected = posterior(whole, prior)
    np.testing.assert_allclose(evidence, expected_evidence, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(probs, expected[included], rtol=1e-9, atol=1e-15)


def test_the_posterior_of_an_excerpt_is_that_of_the_whole():
    rng, weights = np.random.default_rng(0), simplex_grid(2, 2)
    included = np.concatenate([np.arange(3, 40), np.arange(300, 350)])
    emissions = 2 * rng.normal(size=(len(included), len(weights)))
    whole = np.zeros((500, len(weights)))
    whole[included] = emissions
    result = grid_posterior(emissions, weights, skipped=np.diff(included, prepend=-1) - 1)
    expected = grid_posterior(whole, weights)
    assert result.prior == expected.prior
    assert result.evidences == pytest.approx(expected.evidences, rel=1e-9)
    for name in ("field", "regions", "domain_probs", "states"):
        np.testing.assert_allclose(getattr(result, name), getattr(expected, name)[included], rtol=1e-9, atol=1e-15)


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
        evidence, probs = posterior(np.tile(emissions, (1, len(prior.weights) // 2)), prior)
        assert np.isfinite(evidence)
        assert np.isfinite(probs).all()


def test_without_evidence_the_posterior_is_the_prior():
    weights = simplex_grid(3, 2)
    for prior in some_priors(weights):
        evidence, probs = posterior(np.zeros((7, len(prior.weights))), prior)
        assert evidence == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(probs[0], prior.initial, atol=1e-12)
    result = grid_posterior(np.zeros((7, 6)), weights)
    np.testing.assert_allclose(result.field, 1 / 3)
    np.testing.assert_allclose(result.regions, 1 / 3)


def test_the_evidence_chooses_the_prior_that_made_the_field():
    rng = np.random.default_rng(0)
    weights = simplex_grid(2, 1)
    unchanging, changing = np.zeros((400, 2)), np.zeros((400, 2))
    unchanging[:, 1] = -1.0  # one expert for the whole sequence
    changing[:200, 1] = changing[200:, 0] = -1.0  # a change in the middle
    noise = rng.normal(size=(400, 2))
    priors = [constant(weights), sticky(weights, 0.01)]
    assert grid_posterior(unchanging + noise, weights, priors).prior == "constant"
    result = grid_posterior(changing + noise, weights, priors)
    assert result.prior == "sticky 0.01"
    assert (result.regions.argmax(axis=1) == np.repeat([0, 1], 200)).mean() > 0.98
    assert result.log_evidence == max(result.evidences.values())


def test_only_a_prior_with_domain_segments_attributes_positions():
    rng = np.random.default_rng(0)
    weights = simplex_grid(2, 1)
    truth = rng.integers(2, size=60).repeat(10)  # compositions that change often
    emissions = np.where(np.arange(2) == truth[:, None], 0.0, -3.0)
    regions, loose = two_level(weights, 0.003, 0.2, 0.95), sticky(weights, 0.1)
    result = grid_posterior(emissions, weights, [regions, loose])
    assert result.prior == loose.name
    np.testing.assert_array_equal(result.field, grid_posterior(emissions, weights, [loose]).field)
    np.testing.assert_array_equal(result.regions, grid_posterior(emissions, weights, [regions]).regions)
    np.testing.assert_array_equal(result.domain_probs, result.field)


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
def test_invalid_settings_raise(call):
    with pytest.raises(ConservatorError):
        call(simplex_grid(3, 2))


def test_too_many_states_are_refused():
    with pytest.raises(ConservatorError, match="use a lower resolution"):
        two_level(simplex_grid(6, 7), 0.1, 0.2, 0.9)
