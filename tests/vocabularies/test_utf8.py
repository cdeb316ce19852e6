"""The best valid UTF-8, compared with enumeration of all byte strings and with Python's decoder."""

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
from conservator.vocabularies.utf8 import ALL_STATES, EDGES, LOST, STATES

UTF8 = BYTES.constraint
# NEXT_STATE[state, byte] is the state after that byte; -1 if the byte is not allowed.
NEXT_STATE = np.full((STATES, LOST), -1)
for source, first, last, target in EDGES:
    NEXT_STATE[source, first : last + 1] = target


def is_valid(data):
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True


def as_tokens(data):
    return np.array(list(data), dtype=np.int64)


def random_candidates(count, seed):
    rows = 3 * np.random.default_rng(seed).normal(size=(count, 256))
    return UTF8.make_candidates(torch.log_softmax(torch.from_numpy(rows), dim=-1))


@given(st.binary(max_size=12))
def test_violations_of_visible_bytes_agree_with_python(data):
    assert is_valid(data) != UTF8.violations(as_tokens(data)).any()
    chosen, probability = UTF8.best(as_tokens(data), UTF8.initial_candidates(np.empty(0)))
    assert chosen.shape == probability.shape == (0,)


@given(st.binary(min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 9))
def test_a_lost_byte_completes_its_neighbours_or_they_are_refused(data, position, seed):
    position = min(position, len(data) - 1)
    fitting = [byte for byte in range(256) if is_valid(data[:position] + bytes([byte]) + data[position + 1 :])]
    tokens = as_tokens(data)
    tokens[position] = LOST
    if fitting:
        chosen, probability = UTF8.best(tokens, random_candidates(1, seed))
        assert chosen[0] in fitting
        assert 0 < probability[0] <= 1
    elif (tokens >= 128).all():  # else the invalid bytes may be in another run than the lost one
        with pytest.raises(ConservatorError, match="no bytes at the lost positions make the document valid UTF-8"):
            UTF8.best(tokens, random_candidates(1, seed))


def test_the_automaton_accepts_what_python_accepts():
    """Combine every lead byte with the ends of every range that follows it."""
    interesting = sorted({byte for _, first, last, _ in EDGES for byte in (first - 1, first, last, last + 1)} - {-1})
    for length in (1, 2, 3):
        for data in product(interesting, repeat=length):
            assert bool(UTF8.reachable(as_tokens(data))[0][-1] & 1) == is_valid(data), data


@given(st.text(min_size=1, max_size=6), st.integers(0, 1000), st.floats(0, 1))
def test_lost_bytes_are_the_most_likely_valid_ones(text, seed, rate):
    rng = np.random.default_rng(seed)
    data = text.encode()
    lost = np.flatnonzero(rng.random(len(data)) < rate)[:2]
    tokens = as_tokens(data)
    tokens[lost] = LOST
    table = np.full((len(lost), 256), -90.0)
    choices_at = []
    for row, position in enumerate(lost):  # a few candidates for each, including the clean byte
        choices_at.append(sorted({data[position], *rng.integers(256, size=12).tolist()}))
        table[row, choices_at[-1]] = 3 * rng.normal(size=len(choices_at[-1]))
    scores = {}
    for choice in product(*choices_at):
        candidate = bytearray(data)
        for position, byte in zip(lost, choice, strict=True):
            candidate[position] = byte
        if is_valid(candidate):
            scores[choice] = sum(table[row, byte] for row, byte in enumerate(choice))
    chosen, probability = UTF8.best(tokens, UTF8.make_candidates(torch.from_numpy(table)))
    assert tuple(chosen.tolist()) == max(scores, key=scores.get)
    total = np.logaddexp.reduce(list(scores.values()))
    for row, byte in enumerate(chosen):
        agree = [score for choice, score in scores.items() if choice[row] == byte]
        assert probability[row] == pytest.approx(np.exp(np.logaddexp.reduce(agree) - total), abs=1e-9)


letters = st.sampled_from(["a", " ", "é", "€", "日", "😀", "\n"])
texts = st.lists(letters, max_size=40).map(lambda characters: as_tokens("".join(characters).encode()))


def lose(tokens, rate, seed):
    lost = np.random.default_rng(seed).random(len(tokens)) < rate
    return np.where(lost, LOST, tokens)


@given(texts, st.floats(0, 1), st.integers(0, 1000))
def test_independent_runs_agree_with_the_whole_document(tokens, rate, seed):
    """Run the automaton over the whole document, including ASCII and characters without a lost byte."""
    tokens = lose(tokens, rate, seed)
    lost = tokens == LOST
    candidates = random_candidates(int(lost.sum()), seed)
    edges, stuck = utf8.viterbi_kernel(tokens, candidates.log_prob, -np.inf, -np.inf)
    assert stuck == -1
    rows, edges = np.arange(len(candidates)), edges[lost]
    expected = candidates.token[rows, edges]
    expected_probability = utf8.marginal_kernel(tokens, candidates.total, expected, candidates.log_prob[rows, edges])
    chosen, probability = UTF8.best(tokens, candidates)
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_allclose(probability, expected_probability, rtol=1e-9)
    whole = tokens.copy()
    whole[lost] = chosen
    assert is_valid(whole.tolist())


some_tokens = st.sampled_from([0x41, 0x80, 0xBF, 0xC3, 0xE2, 0xED, 0xF0, 0xFF, LOST])


@given(st.lists(some_tokens, max_size=8))
def test_the_bytes_that_remain_are_valid(tokens):
    tokens = np.array(tokens, dtype=np.int64)
    invalid = UTF8.violations(tokens)
    assert not invalid[(tokens < 128) | (tokens == LOST)].any()
    left = np.where(invalid, LOST, tokens)
    assert UTF8.reachable(left)[0][-1] & 1
    forward, backward = UTF8.reachable(left)
    assert (forward & backward).all()


@given(st.lists(some_tokens, max_size=6))
def test_violations_are_the_fewest(tokens):
    tokens = np.array(tokens, dtype=np.int64)
    count = int(UTF8.violations(tokens).sum())
    for fewer in range(count):
        for positions in combinations(np.flatnonzero(tokens >= 128), fewer):
            left = tokens.copy()
            left[list(positions)] = LOST
            assert not UTF8.reachable(left)[0][-1] & 1


@given(st.lists(some_tokens, max_size=6), st.integers(1, ALL_STATES))
def test_reachable_states_agree_with_enumeration(tokens, before):
    """Move sets of states byte by byte, forward from the start and backward from the end."""
    forward, backward = UTF8.reachable(np.array(tokens, dtype=np.int64), before)
    fitting = [range(256) if token == LOST else [token] for token in tokens]
    states = {state for state in range(STATES) if before >> state & 1}
    assert forward[0] == before
    for position, choices in enumerate(fitting):
        states = {int(NEXT_STATE[state, byte]) for state in states for byte in choices} - {-1}
        assert forward[position + 1] == sum(1 << state for state in states)
    states = {0}
    assert backward[-1] == 1
    for position in range(len(tokens) - 1, -1, -1):
        states = {
            state
            for state in range(STATES)
            if any(int(NEXT_STATE[state, byte]) in states for byte in fitting[position])
        }
        assert backward[position] == sum(1 << state for state in states)


def test_next_states_move_every_state():
    for states in range(ALL_STATES + 1):
        after = UTF8.next_states(states)
        for byte in (0x00, 0x41, 0x80, 0x90, 0xA0, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFF):
            moved = {int(NEXT_STATE[state, byte]) for state in range(STATES) if states >> state & 1} - {-1}
            assert after[byte] == sum(1 << state for state in moved)
        assert UTF8.advance(states) == reduce(or_, after.tolist())


@given(texts, st.lists(st.integers(0, 160), max_size=6), st.integers(0, 1000))
def test_an_excerpt_is_closed_to_valid_text(tokens, edges, seed):
    """Cuts are anywhere, also within characters; lost bytes elsewhere are chosen as in the whole document."""
    edges = sorted({min(edge, len(tokens)) for edge in edges})
    selected = np.zeros(len(tokens), dtype=bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=False):
        selected[start:stop] = True
    positions = np.flatnonzero(selected)
    cuts = Excerpt(torch.from_numpy(positions), len(tokens)).cuts.numpy()
    excerpt = tokens[positions]
    closed = UTF8.close_at_cuts(excerpt, cuts)
    assert is_valid(closed.tolist())
    changed = closed != excerpt
    assert (excerpt[changed] >= 128).all()
    assert (closed[changed] == ord(" ")).all()
    for position in np.flatnonzero(changed):  # only bytes of the character at a cut
        assert min(abs(position - cut) for cut in cuts) <= 4
    # Lost bytes that are farther than a character from every cut.
    inner = np.array([all(abs(position - cut) > 8 for cut in cuts) for position in range(len(excerpt))], dtype=bool)
    lost = inner & (np.random.default_rng(seed).random(len(excerpt)) < 0.5)
    whole = tokens.copy()
    whole[positions[lost]] = LOST
    candidates = random_candidates(int(lost.sum()), seed)
    expected = UTF8.best(whole, candidates)
    result = UTF8.best(UTF8.close_at_cuts(np.where(lost, LOST, excerpt), cuts), candidates)
    np.testing.assert_array_equal(result[0], expected[0])
    np.testing.assert_allclose(result[1], expected[1], rtol=1e-9)


def test_truncated_and_latin_1_bytes_are_violations():
    assert np.flatnonzero(UTF8.violations(as_tokens("caf\xe9 au lait".encode("latin-1")))).tolist() == [3]
    assert not UTF8.violations(np.array([0xC3, LOST, LOST, 0xA9])).any()


def test_compiled_kernels_agree_with_plain_python():
    tokens = np.array([LOST, LOST, 0xA9, 0x41, LOST, 0xE2, LOST, LOST, LOST])
    candidates = random_candidates(6, 0)
    chosen = UTF8.best(tokens, candidates)[0]
    text = tokens.copy()
    text[tokens == LOST] = chosen
    assert is_valid(text.tolist())
    calls = (
        (utf8.viterbi_kernel, (tokens, candidates.log_prob, -np.inf, -np.inf)),
        (utf8.viterbi_kernel, (tokens, np.zeros(candidates.log_prob.shape), -1.0, -utf8.ASCII_COST)),
        (utf8.marginal_kernel, (tokens, candidates.total, chosen, candidates.log_prob[:, 0])),
        (utf8.reachable_kernel, (tokens, 1)),
    )
    for kernel, arguments in calls:
        for compiled, plain in zip(kernel(*arguments), getattr(kernel, "py_func", kernel)(*arguments), strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_an_empty_document_is_valid():
    assert UTF8.best(as_tokens(b""), UTF8.initial_candidates(np.empty(0)))[0].tolist() == []


def test_a_byte_without_prediction_is_kept_or_becomes_a_space():
    def best(data, observed):
        tokens = as_tokens([LOST if byte is None else byte for byte in data])
        return bytes(UTF8.best(tokens, UTF8.initial_candidates(np.array(observed)))[0].tolist())

    assert best([97, None, None, None, 0xA9], [LOST] * 3) == b"  \xc2"  # the last byte must start a character
    assert best([97, None, None, None, 98], [0xC3, 0xA9, LOST]) == b"\xc3\xa9 "
    assert best([None, None], [0xFF, 0xC3]) == b"  "
