"""The simulated cluster: what can be computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator_studies.cluster import Cluster, simulate

WORK = st.lists(st.floats(0.01, 10), min_size=1, max_size=40)


def run(cluster, work, seed=0):
    return simulate(cluster, work, np.random.default_rng(seed))


@given(WORK, st.floats(0, 5))
def test_one_worker_does_one_document_after_the_other(work, start):
    found = run(Cluster(1, start), work)
    assert found.seconds == pytest.approx(start + sum(work))
    assert found.busy == pytest.approx(sum(work))
    assert (found.wasted, found.failures, found.copied) == (0, 0, 0)


@given(WORK, st.integers(1, 8), st.floats(0, 5))
def test_documents_in_their_order_take_no_longer_than_grahams_bound(work, workers, start):
    found = run(Cluster(workers, start), work)
    least = max(max(work), sum(work) / workers)
    assert start + least <= found.seconds * (1 + 1e-9)
    assert found.seconds <= (start + sum(work) / workers + 2 * max(work)) * (1 + 1e-9)
    assert found.used(workers) <= 1 + 1e-9


@given(st.integers(1, 60), st.integers(1, 8))
def test_a_slow_driver_is_all_that_counts(documents, workers):
    found = run(Cluster(workers, driver=2.0), [1e-9] * documents)
    assert 2.0 * documents <= found.seconds * (1 + 1e-6)
    assert found.seconds <= 2.0 * documents + 2.0 + 1e-6


@given(WORK, st.integers(1, 4), st.integers(0, 1000))
def test_every_document_is_done_or_given_up_whatever_fails(work, workers, seed):
    cluster = Cluster(workers, 0.5, 0.01, between_failures=5.0, attempts=3)
    found = run(cluster, work, seed)
    assert found == run(cluster, work, seed)
    assert found.busy <= sum(work) + 1e-9
    assert (found.copied == 0) == (found.busy == pytest.approx(sum(work)))
    assert found.failures >= 3 * found.copied
    assert (found.failures == 0) == (found.wasted == 0)


def test_failures_cost_what_theory_says():
    mean, seconds, documents = 4.0, 2.0, 20_000
    found = run(Cluster(1, 0.0, between_failures=mean, attempts=10**9), [seconds] * documents)
    assert found.seconds / documents == pytest.approx(mean * math.expm1(seconds / mean), rel=0.03)
    assert found.failures / documents == pytest.approx(math.expm1(seconds / mean), rel=0.05)
