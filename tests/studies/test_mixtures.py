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


@given(seed=st.integers(0, 50), least=st.integers(1, 15))
def test_windows_are_made_of_what_their_labels_say(seed, least):
    mixed = mix(DOMAINS, 5, length=30, least=least, seed=seed)
    texts = [text for group in DOMAINS.values() for text in group]
    for tokens, labels, documents in zip(mixed.tokens, mixed.labels, mixed.documents, strict=True):
        edges = [0, *boundaries(labels), 30]
        assert 3 <= len(edges) <= 4
        for start, stop in itertools.pairwise(edges):
            assert stop - start >= least
            assert len(documents[start:stop].unique()) == 1
            text = texts[int(documents[start])]
            assert text in DOMAINS[mixed.names[int(labels[start])]]
            assert bytes(tokens[start:stop].tolist()) in text
    again = mix(DOMAINS, 5, length=30, least=least, seed=seed)
    assert torch.equal(mixed.tokens, again.tokens)


def test_all_domains_and_both_numbers_of_segments_occur():
    mixed = mix(DOMAINS, 200, length=30, least=5)
    assert torch.bincount(mixed.labels.flatten(), minlength=3).min() > 1000
    assert {len(boundaries(labels)) for labels in mixed.labels} == {1, 2}


@pytest.mark.parametrize(
    ("domains", "length", "least"),
    [({"lower": DOMAINS["lower"]}, 30, 5), (DOMAINS, 30, 16), (DOMAINS, 50, 5), (DOMAINS, 30, 0)],
)
def test_what_cannot_be_mixed_is_said(domains, length, least):
    with pytest.raises(ConservatorError):
        mix(domains, 2, length=length, least=least)


def test_documents_count_alike_however_long_they_are():
    right = torch.tensor([True, True, False, True, False])
    assert per_group(right, torch.tensor([7, 7, 7, 2, 2])).tolist() == pytest.approx([0.5, 2 / 3])


def test_calibration_by_hand():
    confidence = torch.tensor([0.9, 0.9, 0.91, 0.2])
    assert calibration_error(confidence, torch.tensor([1, 1, 0, 0])) == pytest.approx((0.71 + 0.2) / 4)
    assert calibration_error(torch.ones(5), torch.ones(5)) == 0


@given(
    ours=st.sets(st.integers(1, 39), max_size=8), theirs=st.sets(st.integers(1, 39), max_size=8), far=st.integers(0, 6)
)
def test_boundaries_are_matched_as_well_as_possible(ours, theirs, far):
    def field(places):
        steps = torch.zeros(40, dtype=torch.long)
        steps[sorted(places)] = 1
        return steps.cumsum(0) % 2

    found = boundary_f1(field(ours)[None], field(theirs)[None], far)
    near = torch.tensor([[float(abs(a - b) <= far) for b in sorted(theirs)] for a in sorted(ours)])
    best = 0.0
    if near.numel():
        rows, columns = linear_sum_assignment(near, maximize=True)
        best = float(near[rows, columns].sum())
    total = len(ours) + len(theirs)
    assert found == pytest.approx(2 * best / total if total else 1.0)
