"""The contextual study with its full configuration."""

import itertools

import pytest

from conservator_studies import contextual
from conservator_studies.study import untracked


@pytest.fixture(scope="module")
def rows():
    findings = contextual.run(contextual.PRESETS["laptop"], 0, untracked)
    return {row["method"]: row for row in findings.rows}


def test_the_exact_gradient_agrees_with_finite_differences(rows):
    assert rows["exact_exact"]["cosine"] >= 0.99999
    assert rows["exact_exact"]["rmse"] < 1e-6


def test_the_approximations_have_the_order_of_the_paper(rows):
    order = ["exact_exact", "exact_meanfield", "surrogate_exact", "surrogate_meanfield"]
    for better, worse in itertools.pairwise(order):
        assert rows[better]["cosine"] > rows[worse]["cosine"]
        assert rows[better]["rmse"] < rows[worse]["rmse"]
        assert rows[worse]["cosine_sd"] > 0


def test_the_cosines_are_near_the_papers(rows):
    """Twenty seeds with standard deviations of 0.1 to 0.3: two standard errors."""
    for method in ("surrogate_exact", "exact_meanfield", "surrogate_meanfield"):
        error = 2 * rows[method]["cosine_sd"] / 20**0.5
        assert rows[method]["cosine"] == pytest.approx(rows[method]["paper"]["cosine"], abs=error)


def test_every_recovery_converged(rows):
    assert all(rows[f"n={count}"]["converged"] == 1 for count in (1, 4, 16, 64, 256, 1024))


def test_recovery_improves_with_observations(rows):
    errors = [rows[f"n={count}"]["mae"] for count in (1, 4, 16, 64, 256, 1024)]
    assert all(after < before for before, after in itertools.pairwise(errors))
    assert errors[-1] <= 0.12
