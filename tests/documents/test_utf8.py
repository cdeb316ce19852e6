"""The best valid UTF-8 against all byte strings, and against Python's own decoder."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.documents import utf8
from conservator.documents.utf8 import EDGES, LOST, Candidates, best_utf8, find_invalid, reachable


def is_valid(data):
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True


def as_tokens(data):
    return np.array(list(data), dtype=np.int64)


def nothing():
    return Candidates.empty(0)


@given(st.binary(max_size=12))
def test_what_is_all_visible_is_kept_or_refused_as_python_does(data):
    if is_valid(data):
        chosen, probability = best_utf8(as_tokens(data), nothing())
        assert bytes(chosen.tolist()) == data
        assert (probability == 1).all()
        assert not find_invalid(as_tokens(data)).any()
    else:
        with pytest.raises(ConservatorError, match="valid UTF-8"):
            best_utf8(as_tokens(data), nothing())
        assert find_invalid(as_tokens(data)).any()


def test_the_automaton_accepts_what_python_accepts():
    """Every lead byte with the ends of every range after it."""
    interesting = sorted({byte for _, first, last, _ in EDGES for byte in (first - 1, first, last, last + 1)} - {-1})
    for length in (1, 2, 3):
        for data in product(interesting, repeat=length):
            assert bool(reachable(as_tokens(data))[0][-1] & 1) == is_valid(data), data


@given(st.text(min_size=1, max_size=6), st.integers(0, 1000), st.floats(0, 1))
def test_lost_bytes_are_the_best_that_can_be_read(text, seed, rate):
    rng = np.random.default_rng(seed)
    data = text.encode()
    lost = np.flatnonzero(rng.random(len(data)) < rate)[:2]
    tokens = as_tokens(data)
    tokens[lost] = LOST
    table = np.full((len(lost), 256), -90.0)
    few = []
    for row, place in enumerate(lost):  # a few candidates at each, the true one among them
        few.append(sorted({data[place], *rng.integers(256, size=12).tolist()}))
        table[row, few[-1]] = 3 * rng.normal(size=len(few[-1]))
    found = {}
    for choice in product(*few):
        candidate = bytearray(data)
        for place, byte in zip(lost, choice, strict=True):
            candidate[place] = byte
        if is_valid(candidate):
            found[bytes(candidate)] = sum(table[row, byte] for row, byte in enumerate(choice))
    chosen, probability = best_utf8(tokens, Candidates.of(torch.from_numpy(table)))
    assert bytes(chosen.tolist()) == max(found, key=found.get)
    total = np.logaddexp.reduce(list(found.values()))
    for place in lost:
        agree = [score for one, score in found.items() if one[place] == chosen[place]]
        assert probability[place] == pytest.approx(np.exp(np.logaddexp.reduce(agree) - total), abs=1e-9)


@given(st.lists(st.sampled_from([0x41, 0x80, 0xBF, 0xC3, 0xE2, 0xED, 0xF0, 0xFF, LOST]), max_size=8))
def test_what_is_left_after_the_invalid_bytes_fits(tokens):
    tokens = np.array(tokens, dtype=np.int64)
    invalid = find_invalid(tokens)
    assert not invalid[(tokens < 128) | (tokens == LOST)].any()
    left = np.where(invalid, LOST, tokens)
    assert reachable(left)[0][-1] & 1
    forward, backward = reachable(left)
    assert (forward & backward).all()


def test_truncated_and_foreign_bytes_are_what_is_given_up():
    assert np.flatnonzero(find_invalid(as_tokens("caf\xe9 au lait".encode("latin-1")))).tolist() == [3]
    assert not find_invalid(np.array([0xC3, LOST, LOST, 0xA9])).any()


def test_compiled_kernels_are_the_plain_ones():
    rng = np.random.default_rng(0)
    tokens = np.array([LOST, LOST, 0xA9, 0x41, LOST, 0xE2, LOST, LOST, LOST])
    given = Candidates.of(torch.log_softmax(torch.from_numpy(3 * rng.normal(size=(6, 256))), dim=-1))
    chosen = best_utf8(tokens, given)[0]
    assert is_valid(chosen.tolist())
    calls = {
        "choose_kernel": (tokens, given.value, given.byte),
        "weigh_kernel": (tokens, given.value, given.byte, given.total, chosen),
        "invalid_kernel": (tokens,),
        "reachable_kernel": (tokens,),
    }
    for name, arguments in calls.items():
        kernel = getattr(utf8, name)
        for one, other in zip(kernel(*arguments), getattr(kernel, "py_func", kernel)(*arguments), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_nothing_is_valid():
    assert best_utf8(as_tokens(b""), nothing())[0].tolist() == []
