"""Mixed windows, and the metrics on them."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from conservator import ConservatorError
from conservator_studies.metrics import boundaries, boundary_f1, calibration_error, per_group
from conservator_studies.mixtures import mix

DOMAINS = {
    "lower": [b"abcdefghij" * 4, b"klmnopqrst" * 5, b"short"],
    "upper": [b"ABCDEFGHIJ" * 4],
    "digits": [b"0123456789" * 4, b"9876543210" * 6],
}


@given(seed=st.integers(0, 50), min_segment=st.integers(1, 15))
def test_windows_consist_of_the_documents_of_their_labels(seed, min_segment):
    mixed = mix(DOMAINS, 5, length=30, min_segment=min_segment, seed=seed)
    texts = [text for group in DOMAINS.values() for text in group]
    for tokens, labels, documents in zip(mixed.tokens, mixed.labels, mixed.documents, strict=True):
        edges = [0, *boundaries(labels), 30]
        assert 3 <= len(edges) <= 4
        for start, stop in itertools.pairwise(edges):
            assert stop - start >= min_segment
            assert len(documents[start:stop].unique()) == 1
            text = texts[int(documents[start])]
            assert text in DOMAINS[mixed.names[int(labels[start])]]
            assert bytes(tokens[start:stop].tolist()) in text
    again = mix(DOMAINS, 5, length=30, min_segment=min_segment, seed=seed)
    assert torch.equal(mixed.tokens, again.tokens)


def test_all_domains_and_both_numbers_of_segments_occur():
    mixed = mix(DOMAINS, 200, length=30, min_segment=5)
    assert torch.bincount(mixed.labels.flatten(), minlength=3).min() > 1000
    assert {len(boundaries(labels)) for labels in mixed.labels} == {1, 2}


@pytest.mark.parametrize(
    ("domains", "length", "min_segment"),
    [({"lower": DOMAINS["lower"]}, 30, 5), (DOMAINS, 30, 16), (DOMAINS, 50, 5), (DOMAINS, 30, 0)],
)
def test_impossible_mixtures_are_rejected(domains, length, min_segment):
    with pytest.raises(ConservatorError):
        mix(domains, 2, length=length, min_segment=min_segment)


def test_documents_have_equal_weight():
    right = torch.tensor([True, True, False, True, False])
    assert per_group(right, torch.tensor([7, 7, 7, 2, 2])).tolist() == pytest.approx([0.5, 2 / 3])


def test_the_calibration_error_has_the_expected_value():
    confidence = torch.tensor([0.9, 0.9, 0.91, 0.2])
    assert calibration_error(confidence, torch.tensor([1, 1, 0, 0])) == pytest.approx((0.71 + 0.2) / 4)
    assert calibration_error(torch.ones(5), torch.ones(5)) == 0


@given(
    ours=st.sets(st.integers(1, 39), max_size=8),
    theirs=st.sets(st.integers(1, 39), max_size=8),
    tolerance=st.integers(0, 6),
)
def test_boundaries_have_a_maximum_matching(ours, theirs, tolerance):
    def labels(positions):
        steps = torch.zeros(40, dtype=torch.long)
        steps[sorted(positions)] = 1
        return steps.cumsum(0) % 2

    f1 = boundary_f1(labels(ours)[None], labels(theirs)[None], tolerance)
    near = torch.tensor([[float(abs(a - b) <= tolerance) for b in sorted(theirs)] for a in sorted(ours)])
    best = 0.0
    if near.numel():
        rows, columns = linear_sum_assignment(near, maximize=True)
        best = float(near[rows, columns].sum())
    total = len(ours) + len(theirs)
    assert f1 == pytest.approx(2 * best / total if total else 1.0)
