"""The simulator study at a small size reproduces the values of the paper."""

from dataclasses import replace

import pytest
import torch

from conservator.experts import Context
from conservator_studies import simulator
from conservator_studies.simulation import divergence, draw_experts, true_field
from conservator_studies.study import untracked

SMALL = replace(
    simulator.PRESETS["laptop"], repeats=2, training_steps=200, training_sequences=4000, scored_sequences=250
)


@pytest.fixture(scope="module")
def findings():
    return simulator.run(SMALL, 0, untracked)


@pytest.fixture(scope="module")
def rows(findings):
    return {row["method"]: row for row in findings.rows}


def test_the_methods_are_the_papers(rows):
    methods = ["true_field", "exact", "surrogate", "surrogate_unweighted", "equal", "single"]
    assert list(rows) == [*methods, "damaged", "experts"]
    for method in methods:
        assert rows[method]["count"] == 2
        assert {"mae", "mae_sd", "mae_low", "mae_high", "accuracy", "paper"} <= set(rows[method])
    for method in methods[1:4]:
        assert rows[method]["converged"] == 1


def test_constant_fields_have_their_known_errors(rows):
    assert rows["true_field"]["mae"] == 0
    assert rows["equal"]["mae"] == pytest.approx(1 / 3)
    assert rows["single"]["mae"] == pytest.approx(1 / 2)


def test_exact_evidence_recovers_the_field(rows):
    assert rows["exact"]["mae"] <= 0.016
    assert abs(rows["exact"]["accuracy"] - rows["true_field"]["accuracy"]) <= 0.002


def test_trained_experts_recover_the_field(rows):
    assert rows["surrogate"]["mae"] <= 0.035
    assert min(rows["surrogate"]["correlation_1"], rows["surrogate"]["correlation_2"]) >= 0.96
    assert abs(rows["surrogate"]["accuracy"] - rows["true_field"]["accuracy"]) <= 0.002


def test_accuracies_are_the_papers(rows):
    for method in ("true_field", "exact", "surrogate", "equal", "single"):
        assert rows[method]["accuracy"] == pytest.approx(rows[method]["paper"]["accuracy"], abs=0.006)
    assert rows["exact"]["accuracy"] > rows["equal"]["accuracy"] > rows["single"]["accuracy"]


def test_the_divergence_is_the_papers(rows, generator):
    assert rows["experts"]["divergence"] == pytest.approx(4.56, abs=0.01)
    first, second = draw_experts(12, 48, 2.5, generator)
    assert divergence(first, second) == pytest.approx(divergence(second, first))
    assert divergence(first, first) == 0


def test_the_field_has_three_segments():
    field = true_field(48)
    assert field[:16].tolist() == [[1, 0]] * 16
    assert field[16:32].tolist() == [[0, 1]] * 16
    assert field[32:].tolist() == [[0.5, 0.5]] * 16


def test_the_same_seed_gives_the_same_rows():
    tiny = replace(SMALL, repeats=1, observations=50, training_steps=5, training_sequences=50, score_samples=2)
    first, repeated, other = (simulator.run(tiny, seed, untracked).rows for seed in (0, 0, 1))
    assert first == repeated != other


def test_a_trained_denoiser_predicts_the_marginals(generator):
    """The denoiser learns from samples and approximates the exact marginals."""
    expert, _ = draw_experts(12, 48, 2.5, generator)
    denoiser = simulator.train_on(expert, SMALL, generator)
    context = Context(torch.zeros(1, 48, dtype=torch.long), torch.ones(1, 48, dtype=torch.bool))
    probs = denoiser.predict(context, context.everywhere()).exp()
    assert (probs - expert.log_marginals.exp()).abs().sum(-1).mean() / 2 < 0.05
