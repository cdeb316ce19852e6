"""Test material, and what is said of restorations of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import LOST, compare_documents, damage, read_damaged
from conservator.errors import ConservatorError


@pytest.mark.parametrize("burst", [1, 4, 16])
def test_the_share_is_what_was_asked_for(burst):
    document = b"x" * 20_000
    lost = read_damaged(damage(document, 0.2, burst=burst)).tokens == LOST
    assert lost.mean() == pytest.approx(0.2, abs=0.03)
    edges = int((lost[1:] & ~lost[:-1]).sum())
    assert lost.sum() / edges >= burst


@given(st.text(max_size=30), st.floats(0, 1), st.integers(1, 5), st.integers(0, 9))
def test_what_is_not_lost_stays(text, rate, burst, seed):
    document = text.replace("\ufffd", "").encode()
    damaged = damage(document, rate, burst=burst, seed=seed)
    assert damaged == damage(document, rate, burst=burst, seed=seed)
    tokens = read_damaged(damaged).tokens
    assert len(tokens) == len(document)
    assert all(token in (256, byte) for token, byte in zip(tokens.tolist(), document, strict=True))
    found = compare_documents(document, document, damaged)
    assert (found.right, found.filled, found.false_changes, found.character_errors) == (found.lost, found.lost, 0, 0)


def test_a_burst_may_be_longer_than_any_memory():
    document = b"some 600 bytes, more or less " * 20
    for seed in range(5):
        assert len(read_damaged(damage(document, 0.2, burst=10**9, seed=seed)).tokens) == len(document)
    assert damage(b"", 0.5, burst=10**9) == b""
    assert damage(b"ab", 1.0, burst=10**30) == "\ufffd\ufffd".encode()
    assert damage(b"ab", 0.0, burst=10**30) == b"ab"


def test_the_law_of_long_bursts_is_that_of_short_ones():
    """Each byte is lost with the rate, and two neighbours together as often as bursts that begin anywhere say."""
    rate, burst, count = 0.4, 5, 4000
    losses = [damage(b"abc", rate, burst=burst, seed=seed).decode() for seed in range(count)]
    lost = [[sign == "\ufffd" for sign in text] for text in losses]
    for place in range(3):
        assert sum(one[place] for one in lost) / count == pytest.approx(rate, abs=0.03)
    kept = (1 - rate) ** ((burst + 2) / burst)  # no burst begins at any of the places that reach one of the three
    assert sum(not any(one) for one in lost) / count == pytest.approx(kept, abs=0.03)


def test_replacement_marks_nothing():
    document = bytes(range(256)) * 8
    damaged = damage(document, 0.5, channel="replacement")
    assert len(damaged) == len(document)
    changed = sum(one != other for one, other in zip(damaged, document, strict=True))
    assert changed / len(document) == pytest.approx(0.5, abs=0.05)


def test_figures_of_a_comparison():
    original, damaged = "naïve café!".encode(), b"na??ve caf?\xa9!"
    found = compare_documents(original, b"na??ve caf\xc2\xa9!", damaged, mark="?")
    # Of three lost bytes one was filled in, wrongly; two marks stand for one character, another is wrong.
    assert (found.lost, found.filled, found.right, found.false_changes) == (3, 1, 0, 0)
    assert (found.character_errors, found.characters) == (3, 11)
    found = compare_documents(original, "naïve café?".encode(), damaged, mark="?")
    assert (found.right, found.false_changes) == (3, 1)
    assert found.accuracy == 1.0
    assert compare_documents(b"a", b"a", b"a").accuracy is None


def test_without_marks_what_differs_was_lost():
    found = compare_documents(b"abcd", b"abcx", b"a#cx")
    assert (found.lost, found.right, found.false_changes) == (2, 1, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: damage(b"a", 2.0), "between 0 and 1"),
        (lambda: damage(b"a", 0.1, burst=0), "at least 1"),
        (lambda: damage(b"a", 0.1, channel="fire"), "known: mask"),
        (lambda: damage(b"a?", 0.1, mark="?"), "byte 1 of the document already"),
        (lambda: damage(b"a", 0.1, mark=""), "is empty"),
        (lambda: compare_documents(b"a", b"aa", b"a"), "equally long"),
        (lambda: compare_documents(b"ab", b"ab", b"?c", mark="?"), "byte 1 of the original"),
    ],
)
def test_bad_input_is_said(call, message):
    with pytest.raises(ConservatorError, match=message):
        call()
