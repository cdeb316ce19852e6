"""Attribution metrics by hand, and laws that they keep."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator_studies.attribution import attribution, near_boundaries, segment_f1, segments

LABELS = torch.tensor([[0] * 10 + [1] * 10, [2] * 8 + [0] * 12])
LOST = torch.arange(40).view(2, 20) % 3 == 0


def weights_of(labels, confidence=0.8):
    one_hot = torch.eye(3, dtype=torch.float64)[labels]
    return confidence * one_hot + (1 - confidence) / 3


def test_the_truth_has_full_marks():
    found = attribution(weights_of(LABELS), LABELS, LOST)
    assert all(value == 1 for value in found.values()), found


def test_a_shifted_boundary_by_hand():
    shifted = LABELS.clone()
    shifted[0, 10:13] = 0  # three positions too late
    found = attribution(weights_of(shifted), LABELS, LOST)
    assert found["field_accuracy"] == pytest.approx(37 / 40)
    assert found["field_accuracy_interior"] == 1
    assert found["field_accuracy_boundary"] == pytest.approx(13 / 16)
    assert found["recall_1"] == pytest.approx(0.7)
    assert (found["recall_0"], found["recall_2"]) == (1, 1)
    assert found["iou"] == pytest.approx((22 / 25 + 0.7 + 1) / 3)
    assert found["boundary_f1"] == 1
    assert found["segment_f1"] == 1
    assert 0.9 < found["macro_auroc"] < 1


def test_segments_are_runs():
    assert segments(torch.tensor([1, 1, 0, 0, 0, 2])) == [(0, 2, 1), (2, 5, 0), (5, 6, 2)]
    assert near_boundaries(torch.tensor([[0] * 6 + [1] * 6])).nonzero()[:, 1].tolist() == list(range(2, 10))


def test_half_of_the_union_is_enough_and_less_is_not():
    truth = torch.tensor([[0] * 4 + [1] * 4])
    half = torch.tensor([[0] * 2 + [1] * 6])
    assert segment_f1(half, truth) == 1
    assert segment_f1(torch.tensor([[0] + [1] * 7]), truth) == 0.5


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_a_segmentation_matches_itself_and_no_other_better(labels):
    truth = torch.tensor([labels])
    assert segment_f1(truth, truth) == 1
    other = (truth + 1) % 3
    assert segment_f1(other, truth) == 0


def test_regions_that_do_not_occur_are_left_out():
    labels = LABELS[:1]
    found = attribution(weights_of(labels), labels, LOST[:1])
    assert all(value == 1 for value in found.values()), found
    assert "recall_2" not in found


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(ConservatorError, match=r"conservator\[studies\]"):
        attribution(weights_of(LABELS), LABELS, LOST)
