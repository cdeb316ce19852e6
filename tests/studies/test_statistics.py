"""Paired comparisons against closed forms and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conservator_studies.statistics import compare


@given(seed=st.integers(0, 20), count=st.integers(5, 60), shift=st.floats(-1, 1))
def test_a_comparison_is_that_of_the_differences(seed, count, shift):
    rng = np.random.default_rng(seed)
    theirs = rng.normal(size=count)
    ours = theirs + shift + rng.normal(size=count)
    found = compare(ours, theirs, resamples=500)
    paired = ours - theirs
    assert found.difference == pytest.approx(paired.mean())
    assert found.d_z == pytest.approx(paired.mean() / paired.std(ddof=1))
    assert found.low < found.difference < found.high
    assert found.count == count
    swapped = compare(theirs, ours, resamples=500)
    assert (swapped.difference, swapped.d_z) == pytest.approx((-found.difference, -found.d_z))
    assert swapped.p == pytest.approx(found.p, abs=0.1)


def test_interval_and_p_value_are_those_of_scipy():
    rng = np.random.default_rng(1)
    paired = rng.normal(0.25, 1, size=80)
    found = compare(paired, np.zeros(80))
    bootstrap = stats.bootstrap((paired,), np.mean, method="percentile", n_resamples=10_000, rng=rng)
    assert found.low == pytest.approx(bootstrap.confidence_interval.low, abs=0.02)
    assert found.high == pytest.approx(bootstrap.confidence_interval.high, abs=0.02)
    exact = stats.permutation_test((paired,), np.mean, permutation_type="samples", n_resamples=10_000, rng=rng)
    assert found.p == pytest.approx(exact.pvalue, abs=0.01)


def test_the_p_value_of_few_units_is_that_of_all_sign_flips():
    found = compare([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], resamples=20_000)
    assert found.p == pytest.approx(2 / 8, abs=0.015)


def test_a_single_unit_has_no_spread():
    found = compare([0.5], [0.25], resamples=10)
    assert (found.difference, found.low, found.high, found.d_z, found.p) == (0.25, 0.25, 0.25, 0, 1)
