"""Attribution metrics: values computed by hand, and properties."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator_studies.attribution import attribution, near_boundaries, segment_f1, segments

LABELS = torch.tensor([[0] * 10 + [1] * 10, [2] * 8 + [0] * 12])
LOST = torch.arange(40).view(2, 20) % 3 == 0
NAMES = ("prose", "code", "config")


def weights_of(labels, confidence=0.8):
    one_hot = torch.eye(3, dtype=torch.float64)[labels]
    return confidence * one_hot + (1 - confidence) / 3


def test_the_true_labels_have_perfect_scores():
    metrics = attribution(weights_of(LABELS), LABELS, LOST, NAMES)
    assert all(value == 1 for value in metrics.values()), metrics


def test_a_shifted_boundary_has_the_expected_scores():
    shifted = LABELS.clone()
    shifted[0, 10:13] = 0  # three positions too late
    metrics = attribution(weights_of(shifted), LABELS, LOST, NAMES)
    assert metrics["field_accuracy"] == pytest.approx(37 / 40)
    assert metrics["field_accuracy_interior"] == 1
    assert metrics["field_accuracy_boundary"] == pytest.approx(13 / 16)
    assert metrics["recall_code"] == pytest.approx(0.7)
    assert (metrics["recall_prose"], metrics["recall_config"]) == (1, 1)
    assert metrics["iou"] == pytest.approx((22 / 25 + 0.7 + 1) / 3)
    assert metrics["boundary_f1"] == 1
    assert metrics["segment_f1"] == 1
    assert 0.9 < metrics["macro_auroc"] < 1


def test_segments_are_runs():
    assert segments(torch.tensor([1, 1, 0, 0, 0, 2])) == [(0, 2, 1), (2, 5, 0), (5, 6, 2)]
    assert near_boundaries(torch.tensor([[0] * 6 + [1] * 6])).nonzero()[:, 1].tolist() == list(range(2, 10))


def test_segments_match_from_half_of_their_union_on():
    truth = torch.tensor([[0] * 4 + [1] * 4])
    half = torch.tensor([[0] * 2 + [1] * 6])
    assert segment_f1(half, truth) == 1
    assert segment_f1(torch.tensor([[0] + [1] * 7]), truth) == 0.5


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_a_segmentation_matches_itself_and_not_other_labels(labels):
    truth = torch.tensor([labels])
    assert segment_f1(truth, truth) == 1
    other = (truth + 1) % 3
    assert segment_f1(other, truth) == 0


def test_regions_without_positions_are_excluded():
    labels = LABELS[:1]
    metrics = attribution(weights_of(labels), labels, LOST[:1], NAMES)
    assert all(value == 1 for value in metrics.values()), metrics
    assert "recall_2" not in metrics


def test_a_missing_dependency_is_reported_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(ConservatorError, match=r"conservator\[studies\]"):
        attribution(weights_of(LABELS), LABELS, LOST, NAMES)
