"""Simulated clusters: values computed by hand."""

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
def test_one_worker_processes_documents_in_sequence(work, start):
    result = run(Cluster(1, start), work)
    assert result.seconds == pytest.approx(start + sum(work))
    assert result.busy == pytest.approx(sum(work))
    assert (result.wasted, result.failures, result.copied) == (0, 0, 0)


@given(WORK, st.integers(1, 8), st.floats(0, 5))
def test_documents_in_their_order_take_no_longer_than_grahams_bound(work, workers, start):
    result = run(Cluster(workers, start), work)
    lower_bound = max(max(work), sum(work) / workers)
    assert start + lower_bound <= result.seconds * (1 + 1e-9)
    assert result.seconds <= (start + sum(work) / workers + 2 * max(work)) * (1 + 1e-9)
    assert result.used(workers) <= 1 + 1e-9


@given(st.integers(1, 60), st.integers(1, 8))
def test_a_slow_driver_determines_the_time(documents, workers):
    result = run(Cluster(workers, driver=2.0), [1e-9] * documents)
    assert 2.0 * documents <= result.seconds * (1 + 1e-6)
    assert result.seconds <= 2.0 * documents + 2.0 + 1e-6


@given(WORK, st.integers(1, 4), st.integers(0, 1000))
def test_every_document_is_finished_or_copied(work, workers, seed):
    cluster = Cluster(workers, 0.5, 0.01, between_failures=5.0, attempts=3)
    result = run(cluster, work, seed)
    assert result == run(cluster, work, seed)
    assert result.busy <= sum(work) + 1e-9
    assert (result.copied == 0) == (result.busy == pytest.approx(sum(work)))
    assert result.failures >= 3 * result.copied
    assert (result.failures == 0) == (result.wasted == 0)


def test_the_cost_of_failures_agrees_with_theory():
    mean, seconds, documents = 4.0, 2.0, 20_000
    result = run(Cluster(1, 0.0, between_failures=mean, attempts=10**9), [seconds] * documents)
    assert result.seconds / documents == pytest.approx(mean * math.expm1(seconds / mean), rel=0.03)
    assert result.failures / documents == pytest.approx(math.expm1(seconds / mean), rel=0.05)
