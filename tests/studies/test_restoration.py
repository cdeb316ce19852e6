"""Restore mixed windows with experts that predict one letter each."""

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


def letter_expert(letter):
    table = torch.zeros(100, 256)
    table[:, ord(letter)] = 8.0
    return CategoricalExpert(table, letter)


TEAM = Team([letter_expert("a"), letter_expert("b")])


def test_true_labels_restore_everything_and_swapped_labels_nothing():
    by_labels = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS))
    by_swapped = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.flip(-1)))
    assert by_labels.correct.all()
    assert not by_swapped.correct.any()
    assert len(by_labels.correct) == int(OBSERVED.lost.sum())
    assert torch.equal(by_labels.regions, MIXED.labels)
    assert by_labels.cost.evaluations == 12 * 2
    largest, zero = difference(by_labels, by_swapped), difference(by_labels, by_labels)
    assert [largest[f"difference{end}"] for end in ("", "_low", "_high")] == [1, 1, 1]
    assert zero == {"difference": 0, "difference_low": 0, "difference_high": 0, "p": 1, "d_z": 0}


def test_an_inferred_field_is_described_with_its_cost():
    inferred = Bayes()(TEAM, OBSERVED, torch.Generator().manual_seed(1))
    restored = restore_windows(TEAM, MIXED, OBSERVED, inferred)
    equal = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(torch.full_like(LABELS, 0.5)))
    row = describe("bayes", restored, MIXED.labels)
    assert row["accuracy"] > 0.9
    assert row["field_accuracy"] > 0.9
    assert row["boundary_f1"] > 0.9
    assert row["evaluations"] == 2 * 6 + 2
    assert 0 <= row["arithmetic_share"] <= 1
    assert not equal.attributes
    compared = describe("equal", equal, MIXED.labels, restored)
    assert compared["difference_low"] <= compared["difference"] <= compared["difference_high"]
    assert "field_accuracy" not in compared


def test_windows_without_a_lost_token_are_an_error():
    undamaged = MaskChannel(256, 0.3).observe(MIXED.tokens)
    with pytest.raises(ConservatorError, match="nothing is lost"):
        restore_windows(TEAM, MIXED, undamaged, Inferred.given(LABELS))


def test_accuracy_is_weighted_by_position_window_and_document():
    restored = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.roll(20, dims=1)))
    row = describe("late", restored, MIXED.labels)
    correct = torch.zeros(MIXED.tokens.shape)
    correct[OBSERVED.lost] = restored.correct.float()
    by_window = [float(correct[n][OBSERVED.lost[n]].mean()) for n in range(12)]
    assert row["accuracy"] == pytest.approx(float(restored.correct.float().mean()))
    assert row["accuracy_windows"] == pytest.approx(sum(by_window) / 12, abs=1e-6)
    numbers = MIXED.documents[OBSERVED.lost]
    by_document = [float(restored.correct[numbers == number].float().mean()) for number in numbers.unique()]
    assert row["accuracy_documents"] == pytest.approx(sum(by_document) / len(by_document), abs=1e-6)


def test_the_first_windows_and_each_region_can_be_selected():
    restored = restore_windows(TEAM, MIXED, OBSERVED, Inferred.given(LABELS.roll(20, dims=1)))
    first = restored.first(5)
    assert torch.equal(first.correct, restored.correct[: int(OBSERVED.lost[:5].sum())])
    assert len(first.regions) == 5
    row = describe("few", first, MIXED.labels[:5], restored)
    assert (row["difference"], row["windows"]) == (0, 5)
    accuracies = by_region(restored, MIXED.names)
    in_region = MIXED.labels[OBSERVED.lost] == 1
    assert accuracies["accuracy_b"] == pytest.approx(float(restored.correct[in_region].double().mean()))
    assert set(accuracies) == {"accuracy_a", "accuracy_b"}
