"""Paired comparisons against closed forms and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conservator_studies.statistics import compare


@given(seed=st.integers(0, 20), count=st.integers(5, 60), shift=st.floats(-1, 1))
def test_a_comparison_is_computed_from_paired_differences(seed, count, shift):
    rng = np.random.default_rng(seed)
    theirs = rng.normal(size=count)
    ours = theirs + shift + rng.normal(size=count)
    comparison = compare(ours, theirs, resamples=500)
    paired = ours - theirs
    assert comparison["difference"] == pytest.approx(paired.mean())
    assert comparison["d_z"] == pytest.approx(paired.mean() / paired.std(ddof=1))
    assert comparison["difference_low"] < comparison["difference"] < comparison["difference_high"]
    swapped = compare(theirs, ours, resamples=500)
    assert (swapped["difference"], swapped["d_z"]) == pytest.approx((-comparison["difference"], -comparison["d_z"]))
    assert swapped["p"] == pytest.approx(comparison["p"], abs=0.1)


def test_interval_and_p_value_are_those_of_scipy():
    rng = np.random.default_rng(1)
    paired = rng.normal(0.25, 1, size=80)
    comparison = compare(paired, np.zeros(80))
    bootstrap = stats.bootstrap((paired,), np.mean, method="percentile", n_resamples=10_000, rng=rng)
    assert comparison["difference_low"] == pytest.approx(bootstrap.confidence_interval.low, abs=0.02)
    assert comparison["difference_high"] == pytest.approx(bootstrap.confidence_interval.high, abs=0.02)
    exact = stats.permutation_test((paired,), np.mean, permutation_type="samples", n_resamples=10_000, rng=rng)
    assert comparison["p"] == pytest.approx(exact.pvalue, abs=0.01)


def test_the_p_value_of_few_units_is_that_of_all_sign_flips():
    comparison = compare([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], resamples=20_000)
    assert comparison["p"] == pytest.approx(2 / 8, abs=0.015)


def test_a_single_unit_has_no_variance():
    interval = {"difference": 0.25, "difference_low": 0.25, "difference_high": 0.25}
    assert compare([0.5], [0.25], "own_", resamples=10) == {
        f"own_{key}": value for key, value in (interval | {"p": 1, "d_z": 0}).items()
    }
