"""The best valid UTF-8 against all byte strings, and against Python's own decoder."""

from functools import reduce
from itertools import combinations, product
from operator import or_

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import Excerpt
from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES, utf8
from conservator.vocabularies.utf8 import ANYWHERE, EDGES, LOST, NEXT, STATES

UTF8 = BYTES.constraint


def is_valid(data):
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True


def as_tokens(data):
    return np.array(list(data), dtype=np.int64)


def some_candidates(count, seed):
    rows = 3 * np.random.default_rng(seed).normal(size=(count, 256))
    return UTF8.reduce(torch.log_softmax(torch.from_numpy(rows), dim=-1))


@given(st.binary(max_size=12))
def test_what_is_all_visible_is_kept_or_refused_as_python_does(data):
    assert is_valid(data) != UTF8.violations(as_tokens(data)).any()
    chosen, probability = UTF8.best(as_tokens(data), UTF8.unread(np.empty(0)))
    assert chosen.shape == probability.shape == (0,)


@given(st.binary(min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 9))
def test_a_lost_byte_makes_the_bytes_around_it_valid_or_they_are_refused(data, place, seed):
    place = min(place, len(data) - 1)
    fitting = [byte for byte in range(256) if is_valid(data[:place] + bytes([byte]) + data[place + 1 :])]
    tokens = as_tokens(data)
    tokens[place] = LOST
    if fitting:
        chosen, probability = UTF8.best(tokens, some_candidates(1, seed))
        assert chosen[0] in fitting
        assert 0 < probability[0] <= 1
    elif (tokens >= 128).all():  # else what is wrong may stand apart from what is lost
        with pytest.raises(ConservatorError, match="no choice of the lost bytes makes valid UTF-8"):
            UTF8.best(tokens, some_candidates(1, seed))


def test_the_automaton_accepts_what_python_accepts():
    """Every lead byte with the ends of every range after it."""
    interesting = sorted({byte for _, first, last, _ in EDGES for byte in (first - 1, first, last, last + 1)} - {-1})
    for length in (1, 2, 3):
        for data in product(interesting, repeat=length):
            assert bool(UTF8.reachable(as_tokens(data))[0][-1] & 1) == is_valid(data), data


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
            found[choice] = sum(table[row, byte] for row, byte in enumerate(choice))
    chosen, probability = UTF8.best(tokens, UTF8.reduce(torch.from_numpy(table)))
    assert tuple(chosen.tolist()) == max(found, key=found.get)
    total = np.logaddexp.reduce(list(found.values()))
    for row, byte in enumerate(chosen):
        agree = [score for one, score in found.items() if one[row] == byte]
        assert probability[row] == pytest.approx(np.exp(np.logaddexp.reduce(agree) - total), abs=1e-9)


letters = st.sampled_from(["a", " ", "é", "€", "日", "😀", "\n"])
texts = st.lists(letters, max_size=40).map(lambda found: as_tokens("".join(found).encode()))


def lose(tokens, rate, seed):
    lost = np.random.default_rng(seed).random(len(tokens)) < rate
    return np.where(lost, LOST, tokens)


@given(texts, st.floats(0, 1), st.integers(0, 1000))
def test_runs_apart_give_what_the_whole_document_gives(tokens, rate, seed):
    """The automaton over all of the document, ASCII and characters without a lost byte included."""
    tokens = lose(tokens, rate, seed)
    lost = tokens == LOST
    given = some_candidates(int(lost.sum()), seed)
    expected, stuck = utf8.choose_kernel(tokens, given.value, given.byte)
    assert stuck == -1
    weights = utf8.weigh_kernel(tokens, given.value, given.byte, given.total, expected)
    chosen, probability = UTF8.best(tokens, given)
    np.testing.assert_array_equal(chosen, expected[lost])
    np.testing.assert_allclose(probability, weights[lost], rtol=1e-9)
    whole = tokens.copy()
    whole[lost] = chosen
    assert is_valid(whole.tolist())


some_tokens = st.sampled_from([0x41, 0x80, 0xBF, 0xC3, 0xE2, 0xED, 0xF0, 0xFF, LOST])


@given(st.lists(some_tokens, max_size=8))
def test_what_is_left_after_the_invalid_bytes_fits(tokens):
    tokens = np.array(tokens, dtype=np.int64)
    invalid = UTF8.violations(tokens)
    assert not invalid[(tokens < 128) | (tokens == LOST)].any()
    left = np.where(invalid, LOST, tokens)
    assert UTF8.reachable(left)[0][-1] & 1
    forward, backward = UTF8.reachable(left)
    assert (forward & backward).all()


@given(st.lists(some_tokens, max_size=6))
def test_the_invalid_bytes_are_the_fewest(tokens):
    tokens = np.array(tokens, dtype=np.int64)
    count = int(UTF8.violations(tokens).sum())
    for fewer in range(count):
        for places in combinations(np.flatnonzero(tokens >= 128), fewer):
            left = tokens.copy()
            left[list(places)] = LOST
            assert not UTF8.reachable(left)[0][-1] & 1


@given(st.lists(some_tokens, max_size=6), st.integers(1, ANYWHERE))
def test_states_are_reachable_by_some_bytes(tokens, before):
    """Sets of states, moved byte by byte: before each token those that a beginning leads to, or an end begins in."""
    forward, backward = UTF8.reachable(np.array(tokens, dtype=np.int64), before)
    fitting = [range(256) if token == LOST else [token] for token in tokens]
    states = {state for state in range(STATES) if before >> state & 1}
    assert forward[0] == before
    for place, choices in enumerate(fitting):
        states = {int(NEXT[state, byte]) for state in states for byte in choices} - {-1}
        assert forward[place + 1] == sum(1 << state for state in states)
    states = {0}
    assert backward[-1] == 1
    for place in range(len(tokens) - 1, -1, -1):
        states = {state for state in range(STATES) if any(int(NEXT[state, byte]) in states for byte in fitting[place])}
        assert backward[place] == sum(1 << state for state in states)


def test_a_step_moves_every_state():
    for states in range(ANYWHERE + 1):
        after = UTF8.step(states)
        for byte in (0x00, 0x41, 0x80, 0x90, 0xA0, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF):
            moved = {int(NEXT[state, byte]) for state in range(STATES) if states >> state & 1} - {-1}
            assert after[byte] == sum(1 << state for state in moved)
        assert UTF8.advance(states) == reduce(or_, after.tolist())


@given(texts, st.lists(st.integers(0, 160), max_size=6), st.integers(0, 1000))
def test_an_excerpt_is_sealed_to_valid_text(tokens, edges, seed):
    """Cuts anywhere, also within characters: what is lost elsewhere is chosen as in the whole document."""
    edges = sorted({min(edge, len(tokens)) for edge in edges})
    kept = np.zeros(len(tokens), dtype=bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=False):
        kept[start:stop] = True
    positions = np.flatnonzero(kept)
    cuts = Excerpt(torch.from_numpy(positions), len(tokens)).cuts.numpy()
    excerpt = tokens[positions]
    sealed = UTF8.seal(excerpt, cuts)
    assert is_valid(sealed.tolist())
    changed = sealed != excerpt
    assert (excerpt[changed] >= 128).all()
    assert (sealed[changed] == ord(" ")).all()
    for place in np.flatnonzero(changed):  # only what is part of the character at a cut
        assert min(abs(place - cut) for cut in cuts) <= 4
    # Lost bytes that are farther than a character from every cut.
    inner = np.array([all(abs(place - cut) > 8 for cut in cuts) for place in range(len(excerpt))], dtype=bool)
    lost = inner & (np.random.default_rng(seed).random(len(excerpt)) < 0.5)
    whole = tokens.copy()
    whole[positions[lost]] = LOST
    given = some_candidates(int(lost.sum()), seed)
    expected = UTF8.best(whole, given)
    found = UTF8.best(UTF8.seal(np.where(lost, LOST, excerpt), cuts), given)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9)


def test_truncated_and_foreign_bytes_are_what_is_given_up():
    assert np.flatnonzero(UTF8.violations(as_tokens("caf\xe9 au lait".encode("latin-1")))).tolist() == [3]
    assert not UTF8.violations(np.array([0xC3, LOST, LOST, 0xA9])).any()


def test_compiled_kernels_are_the_plain_ones():
    tokens = np.array([LOST, LOST, 0xA9, 0x41, LOST, 0xE2, LOST, LOST, LOST])
    given = some_candidates(6, 0)
    chosen = tokens.copy()
    chosen[tokens == LOST] = UTF8.best(tokens, given)[0]
    assert is_valid(chosen.tolist())
    calls = {
        "choose_kernel": (tokens, given.value, given.byte),
        "weigh_kernel": (tokens, given.value, given.byte, given.total, chosen),
        "invalid_kernel": (tokens,),
        "reachable_kernel": (tokens, 1),
    }
    for name, arguments in calls.items():
        kernel = getattr(utf8, name)
        for one, other in zip(kernel(*arguments), getattr(kernel, "py_func", kernel)(*arguments), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_nothing_is_valid():
    assert UTF8.best(as_tokens(b""), UTF8.unread(np.empty(0)))[0].tolist() == []


def test_what_nobody_predicted_stays_or_is_a_space_that_joins_with_nothing():
    def best(data, seen):
        tokens = as_tokens([LOST if byte is None else byte for byte in data])
        return bytes(UTF8.best(tokens, UTF8.unread(np.array(seen)))[0].tolist())

    assert best([97, None, None, None, 0xA9], [LOST] * 3) == b"  \xc2"  # the last has to begin a character
    assert best([97, None, None, None, 98], [0xC3, 0xA9, LOST]) == b"\xc3\xa9 "
    assert best([None, None], [0xFF, 0xC3]) == b"  "
