"""Restoring mixed windows with experts that know one letter each."""

import pytest
import torch

from conservator import Bayes, ConservatorError, MaskChannel
from conservator.experts import Team
from conservator.field import Inferred
from conservator.reference import CategoricalExpert
from conservator_studies.mixtures import mix
from conservator_studies.restoration import by_region, describe, difference, restore_windows

DOMAINS = {"a": [b"a" * 120] * 3, "b": [b"b" * 120] * 2}
MIXED = mix(DOMAINS, 12, length=100, min_segment=40)
OBSERVED = MaskChannel(256, 0.3).corrupt(MIXED.tokens, torch.Generator().manual_seed(0))
LABELS = torch.eye(2, dtype=torch.float64)[MIXED.labels]


def knows(letter):
    table = torch.zeros(100, 256)
    table[:, ord(letter)] = 8.0
    return CategoricalExpert(table, letter)


TEAM = Team([knows("a"), knows("b")])


def test_the_right_labels_restore_everything_and_the_wrong_ones_nothing():
    right = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS))
    wrong = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.flip(-1)))
    assert right.right.all()
    assert not wrong.right.any()
    assert len(right.right) == int(OBSERVED.lost.sum())
    assert torch.equal(right.regions, MIXED.labels)
    assert right.cost.evaluations == 12 * 2
    apart, same = difference(right, wrong), difference(right, right)
    assert (apart.difference, apart.low, apart.high) == (1, 1, 1)
    assert (same.difference, same.low, same.high, same.p, same.d_z) == (0, 0, 0, 1, 0)


def test_an_inferred_field_is_described_with_its_cost():
    inferred = Bayes()(TEAM, OBSERVED, torch.Generator().manual_seed(1))
    found = restore_windows(TEAM, MIXED, OBSERVED, inferred)
    equal = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(torch.full_like(LABELS, 0.5)))
    row = describe("bayes", found, MIXED.labels)
    assert row["accuracy"] > 0.9
    assert row["field_accuracy"] > 0.9
    assert row["boundary_f1"] > 0.9
    assert row["evaluations"] == 2 * 6 + 2
    assert 0 <= row["arithmetic_share"] <= 1
    assert not equal.attributes
    compared = describe("equal", equal, MIXED.labels, found)
    assert compared["difference_low"] <= compared["difference"] <= compared["difference_high"]
    assert "field_accuracy" not in compared


def test_nothing_lost_is_said():
    whole = MaskChannel(256, 0.3).observe(MIXED.tokens)
    with pytest.raises(ConservatorError, match="nothing is lost"):
        restore_windows(TEAM, MIXED, whole, Inferred.given(LABELS))


def test_accuracy_is_weighted_by_position_window_and_document():
    found = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.roll(20, dims=1)))
    row = describe("late", found, MIXED.labels)
    right = torch.zeros(MIXED.tokens.shape)
    right[OBSERVED.lost] = found.right.float()
    by_window = [float(right[n][OBSERVED.lost[n]].mean()) for n in range(12)]
    assert row["accuracy"] == pytest.approx(float(found.right.float().mean()))
    assert row["accuracy_windows"] == pytest.approx(sum(by_window) / 12, abs=1e-6)
    numbers = MIXED.documents[OBSERVED.lost]
    by_document = [float(found.right[numbers == one].float().mean()) for one in numbers.unique()]
    assert row["accuracy_documents"] == pytest.approx(sum(by_document) / len(by_document), abs=1e-6)


def test_the_first_windows_alone_and_each_region_alone():
    found = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.roll(20, dims=1)))
    few = found.first(5)
    assert torch.equal(few.right, found.right[: int(OBSERVED.lost[:5].sum())])
    assert len(few.regions) == 5
    row = describe("few", few, MIXED.labels[:5], found)
    assert (row["difference"], row["windows"]) == (0, 5)
    shares = by_region(found, MIXED.names)
    where = MIXED.labels[OBSERVED.lost] == 1
    assert shares["accuracy_b"] == pytest.approx(float(found.right[where].double().mean()))
    assert set(shares) == {"accuracy_a", "accuracy_b"}
