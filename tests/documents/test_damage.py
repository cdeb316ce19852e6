"""Damaging documents, and comparing restorations with the original."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator.documents import LOST, compare_documents, damage, read_damaged
from conservator.errors import ConservatorError


@pytest.mark.parametrize("burst", [1, 4, 16])
def test_the_damaged_fraction_is_the_rate(burst):
    document = b"x" * 20_000
    lost = read_damaged(damage(document, 0.2, burst=burst)).tokens == LOST
    assert lost.mean() == pytest.approx(0.2, abs=0.03)
    edges = int((lost[1:] & ~lost[:-1]).sum())
    assert lost.sum() / edges >= burst


@given(st.text(max_size=30), st.floats(0, 1), st.integers(1, 5), st.integers(0, 9))
def test_undamaged_bytes_are_kept(text, rate, burst, seed):
    document = text.replace("\ufffd", "").encode()
    damaged = damage(document, rate, burst=burst, seed=seed)
    assert damaged == damage(document, rate, burst=burst, seed=seed)
    tokens = read_damaged(damaged).tokens
    assert len(tokens) == len(document)
    assert all(token in (256, byte) for token, byte in zip(tokens.tolist(), document, strict=True))
    comparison = compare_documents(document, document, damaged)
    assert (comparison.right, comparison.filled, comparison.false_changes, comparison.character_errors) == (
        comparison.lost,
        comparison.lost,
        0,
        0,
    )


def test_a_burst_may_be_longer_than_the_memory():
    document = b"some 600 bytes, more or less " * 20
    for seed in range(5):
        assert len(read_damaged(damage(document, 0.2, burst=10**9, seed=seed)).tokens) == len(document)
    assert damage(b"", 0.5, burst=10**9) == b""
    assert damage(b"ab", 1.0, burst=10**30) == "\ufffd\ufffd".encode()
    assert damage(b"ab", 0.0, burst=10**30) == b"ab"


def test_long_bursts_have_the_distribution_of_short_ones():
    """Each byte is lost with the given rate, and neighbours jointly as often as bursts from any start imply."""
    rate, burst, count = 0.4, 5, 4000
    losses = [damage(b"abc", rate, burst=burst, seed=seed).decode() for seed in range(count)]
    lost = [[character == "\ufffd" for character in text] for text in losses]
    for position in range(3):
        assert sum(flags[position] for flags in lost) / count == pytest.approx(rate, abs=0.03)
    undamaged = (1 - rate) ** ((burst + 2) / burst)  # no burst starts where it reaches one of the three bytes
    assert sum(not any(flags) for flags in lost) / count == pytest.approx(undamaged, abs=0.03)


def test_replacement_adds_no_marks():
    document = bytes(range(256)) * 8
    damaged = damage(document, 0.5, channel="replacement")
    assert len(damaged) == len(document)
    changed = sum(observed != clean for observed, clean in zip(damaged, document, strict=True))
    assert changed / len(document) == pytest.approx(0.5, abs=0.05)


def test_counts_of_a_comparison():
    original, damaged = "naïve café!".encode(), b"na??ve caf?\xa9!"
    comparison = compare_documents(original, b"na??ve caf\xc2\xa9!", damaged, mark="?")
    # One of three lost bytes is filled in, incorrectly; two marks stand for one character, another one is wrong.
    assert (comparison.lost, comparison.filled, comparison.right, comparison.false_changes) == (3, 1, 0, 0)
    assert (comparison.character_errors, comparison.characters) == (3, 11)
    comparison = compare_documents(original, "naïve café?".encode(), damaged, mark="?")
    assert (comparison.right, comparison.false_changes) == (3, 1)
    assert comparison.accuracy == 1.0
    assert compare_documents(b"a", b"a", b"a").accuracy is None


def test_without_marks_every_differing_byte_is_lost():
    comparison = compare_documents(b"abcd", b"abcx", b"a#cx")
    assert (comparison.lost, comparison.right, comparison.false_changes) == (2, 1, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: damage(b"a", 2.0), "between 0 and 1"),
        (lambda: damage(b"a", 0.1, burst=0), "at least 1"),
        (lambda: damage(b"a", 0.1, channel="fire"), "known: mask"),
        (lambda: damage(b"a?", 0.1, mark="?"), "occurs at byte 1 of the document"),
        (lambda: damage(b"a", 0.1, mark=""), "is empty"),
        (lambda: compare_documents(b"a", b"aa", b"a"), "must have the same length"),
        (lambda: compare_documents(b"ab", b"ab", b"?c", mark="?"), "byte 1 of the original"),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ConservatorError, match=message):
        call()
