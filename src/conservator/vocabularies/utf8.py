"""Valid UTF-8 as a constraint: lost bytes are chosen jointly, so that the document is valid UTF-8.

Tokens are bytes, or LOST for a lost byte. An automaton of eight states accepts exactly the valid UTF-8. It is in its
first state before and after every ASCII byte. A document therefore splits into independent runs of other bytes, and
only the runs with a lost byte need any computation. All bytes of an edge of the automaton lead to the same state, so
predictions are reduced to two numbers for each edge: the probability of its best byte, and the total probability of its
bytes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.errors import ConservatorError
from conservator.numerics import compiled, runs

Tokens = NDArray[Any]

LOST = 256  # token: stands for a lost byte, the first number that is not a byte [definition]
ASCII = 128  # byte: ASCII bytes are below this [definition]
# The states of the automaton, named after the continuation bytes that may come next (Unicode 15, table 3-7).
START, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(8)
STATES = 8  # count: states of the automaton [definition]
# The state before, the first and the last byte of a range, and the state after any byte of that range.
EDGES = (
    (START, 0x00, 0x7F, START),
    (START, 0xC2, 0xDF, ONE),
    (START, 0xE0, 0xE0, AFTER_E0),
    (START, 0xE1, 0xEC, TWO),
    (START, 0xED, 0xED, AFTER_ED),
    (START, 0xEE, 0xEF, TWO),
    (START, 0xF0, 0xF0, AFTER_F0),
    (START, 0xF1, 0xF3, THREE),
    (START, 0xF4, 0xF4, AFTER_F4),
    (ONE, 0x80, 0xBF, START),
    (TWO, 0x80, 0xBF, ONE),
    (THREE, 0x80, 0xBF, TWO),
    (AFTER_E0, 0xA0, 0xBF, ONE),
    (AFTER_ED, 0x80, 0x9F, ONE),
    (AFTER_F0, 0x90, 0xBF, TWO),
    (AFTER_F4, 0x80, 0x8F, TWO),
)
EDGE_TABLE = np.array(EDGES, dtype=np.int64)
MIN_LOG_PROB = -100.0  # nats: log-probabilities are clamped to this, so that every valid choice is finite [numerical]
ASCII_COST = 1e9  # invalid bytes: cost of an invalid ASCII byte, so high that it never occurs [numerical]
# NEXT_STATE[state, byte] is the state after that byte; -1 if the byte is not allowed.
NEXT_STATE = np.full((STATES, LOST), -1, dtype=np.int64)
for _source, _first, _last, _target in EDGES:
    NEXT_STATE[_source, _first : _last + 1] = _target
# NEXT_STATES[set of states, byte] is the set of states after that byte. Bit s of a set stands for state s.
NEXT_STATES = np.zeros((2**STATES, LOST), dtype=np.int64)
for _state in range(STATES):
    _moved = np.where(NEXT_STATE[_state] >= 0, 1 << np.maximum(NEXT_STATE[_state], 0), 0)
    NEXT_STATES[np.arange(2**STATES) >> _state & 1 == 1] |= _moved
ALL_STATES = 2**STATES - 1  # bit set: all states [definition]


@dataclass(frozen=True)
class Candidates:
    """Predictions for n lost tokens, reduced to E groups of tokens: the 16 edges of the automaton.

    Attributes:
        log_prob: (n, E) the log-probability of the best token of each group.
        token: (n, E) that token.
        total: (n, E) the log-probability of the group.
    """

    log_prob: Floats
    token: Ints
    total: Floats

    def __len__(self) -> int:
        """Return n, the number of lost tokens."""
        return len(self.log_prob)

    def __getitem__(self, rows: Ints) -> "Candidates":
        """Return the candidates of the lost tokens ``rows``."""
        return Candidates(self.log_prob[rows], self.token[rows], self.total[rows])

    def put(self, rows: Ints, other: "Candidates") -> None:
        """Replace the rows ``rows`` by the rows of ``other``."""
        self.log_prob[rows], self.token[rows], self.total[rows] = other.log_prob, other.token, other.total


@dataclass(frozen=True)
class Utf8:
    """The constraint that a text of bytes is valid UTF-8."""

    def make_candidates(self, log_probs: Tensor) -> Candidates:
        """Reduce predictions (n, 256) to the edges of the automaton."""
        log_probs = log_probs.clamp_min(MIN_LOG_PROB)
        edges = [log_probs[:, first : last + 1] for _, first, last, _ in EDGES]
        best = [edge.max(dim=1) for edge in edges]
        first = torch.tensor([edge[1] for edge in EDGES])
        return Candidates(
            torch.stack([edge.values for edge in best], dim=1).double().numpy(),
            (torch.stack([edge.indices for edge in best], dim=1) + first).numpy(),
            torch.stack([edge.logsumexp(dim=1) for edge in edges], dim=1).double().numpy(),
        )

    def initial_candidates(self, tokens: Tokens) -> Candidates:
        """Return candidates for n bytes without predictions: ``tokens`` (n,), unless visible bytes require others.

        LOST, and bytes that occur in no valid UTF-8, become a space.
        """
        first, last = EDGE_TABLE[:, 1], EDGE_TABLE[:, 2]
        inside = (first <= tokens[:, None]) & (tokens[:, None] <= last)
        byte = np.where(inside, tokens[:, None], np.where(first == 0, ord(" "), first))
        inside[:, 0] |= ~inside.any(axis=1)
        log_prob = np.where(inside, 0.0, MIN_LOG_PROB)
        return Candidates(log_prob, byte.astype(np.int64), log_prob.copy())

    def best(self, tokens: Tokens, candidates: Candidates) -> tuple[Ints, Floats]:
        """Return the most likely valid UTF-8 under independent bytes, and the probability of each lost byte.

            argmax over valid UTF-8 x that agrees with the visible bytes of  sum over lost l of  log p_l(x_l)

        Both results are exact.

        Args:
            tokens: (L,) bytes, or LOST.
            candidates: candidates of the n lost bytes, in order.

        Returns:
            The bytes at the lost positions (n,), and p(x_l | the document is valid UTF-8) (n,).
        """
        lost = tokens == LOST
        if not lost.any():
            return np.empty(0, dtype=np.int64), np.empty(0)
        selected = np.flatnonzero(_non_ascii_runs(tokens, lost))
        run_tokens = tokens[selected].astype(np.int64)
        chosen, stuck = viterbi_kernel(run_tokens, candidates.log_prob, candidates.token)
        if stuck >= 0:
            position = int(selected[stuck])
            raise ConservatorError(
                "no bytes at the lost positions make the document valid UTF-8: the visible bytes around byte "
                f"{position} conflict"
            )
        probability = marginal_kernel(run_tokens, candidates.log_prob, candidates.token, candidates.total, chosen)
        return chosen[run_tokens == LOST], probability[run_tokens == LOST]

    def violations(self, tokens: Tokens) -> NDArray[np.bool_]:
        """Return (L,) True at a smallest set of visible bytes whose removal makes the rest valid UTF-8.

        ASCII bytes are never in this set.
        """
        invalid = np.zeros(len(tokens), dtype=bool)
        selected = _non_ascii_runs(tokens)
        if selected.any():
            invalid[selected] = violation_kernel(tokens[selected].astype(np.int64))
        return invalid

    def reachable(self, tokens: Tokens, before: int = 1 << START) -> tuple[Ints, Ints]:
        """Return the possible states before each token and after the last: two arrays (L + 1,) of bit sets.

        The first array has the states that the preceding tokens allow, starting from the set ``before``. The second has
        the states from which the following tokens are accepted.
        """
        return reachable_kernel(tokens.astype(np.int64), before)

    def next_states(self, states: int) -> Ints:
        """Return (256,) the set of states after each byte, from the set ``states``."""
        after: Ints = NEXT_STATES[states]
        return after

    def advance(self, states: int) -> int:
        """Return the set of states after an arbitrary byte, from the set ``states``."""
        return sum({1 << target for source, _, _, target in EDGES if states >> source & 1})

    def close_at_cuts(self, tokens: Tokens, cuts: Ints) -> Tokens:
        """Replace incomplete characters at ``cuts`` by spaces; bytes of the document are omitted before each cut.

        The result is valid UTF-8 if the whole document is, and no byte near a cut is lost.
        """
        closed = tokens.copy()
        for cut in cuts.tolist():
            position = cut
            while position < len(tokens) and ASCII <= tokens[position] < 0xC0:  # the end of a character across the cut
                closed[position] = ord(" ")
                position += 1
            position = cut - 1
            while position >= 0 and ASCII <= tokens[position] < LOST:  # the start of a character across the cut
                closed[position] = ord(" ")
                if tokens[position] >= 0xC0:
                    break
                position -= 1
        return closed


def _non_ascii_runs(tokens: Tokens, required: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Return (L,) True at the runs of non-ASCII tokens, and at the ASCII byte on either side of each run.

    With ``required`` (L,), only runs in which ``required`` is True somewhere are selected.
    """
    non_ascii = tokens >= ASCII
    if required is not None:
        edges = np.array(runs(non_ascii), dtype=np.int64).reshape(-1, 2)
        count = np.concatenate([[0], np.cumsum(required)])
        non_ascii[non_ascii] = np.repeat(count[edges[:, 1]] > count[edges[:, 0]], edges[:, 1] - edges[:, 0])
    selected = non_ascii.copy()
    selected[1:] |= non_ascii[:-1]
    selected[:-1] |= non_ascii[1:]
    return selected


@compiled
def viterbi_kernel(tokens: Ints, log_prob: Floats, best_byte: Ints) -> tuple[Ints, int]:
    """Run Viterbi over the automaton: the chosen bytes (L,), and the first position without a valid byte, or -1."""
    length = len(tokens)
    previous_state = np.full((length, STATES), -1, dtype=np.int8)
    previous_byte = np.zeros((length, STATES), dtype=np.int16)
    score = np.full(STATES, -np.inf)
    score[0] = 0.0
    lost = 0
    for position in range(length):
        reached = np.full(STATES, -np.inf)
        token = tokens[position]
        if token < LOST:
            for state in range(STATES):
                target = NEXT_STATE[state, token]
                if target >= 0 and score[state] > reached[target]:
                    reached[target] = score[state]
                    previous_state[position, target], previous_byte[position, target] = state, token
        else:
            for edge in range(len(EDGE_TABLE)):
                source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
                total = score[source] + log_prob[lost, edge]
                if total > reached[target]:
                    reached[target] = total
                    previous_state[position, target], previous_byte[position, target] = source, best_byte[lost, edge]
            lost += 1
        score = reached
        if score.max() == -np.inf:
            return np.empty(0, dtype=np.int64), position
    chosen = np.empty(length, dtype=np.int64)
    if score[0] == -np.inf:  # the document ends within a character
        return chosen, length - 1
    state = 0
    for position in range(length - 1, -1, -1):
        chosen[position] = previous_byte[position, state]
        state = previous_state[position, state]
    return chosen, -1


@compiled
def marginal_kernel(tokens: Ints, log_prob: Floats, best_byte: Ints, total: Floats, chosen: Ints) -> Floats:
    """Run forward-backward over the automaton: p(x_l = chosen_l | valid), every message scaled to a maximum of 1."""
    length = len(tokens)
    forward = np.zeros((length + 1, STATES))
    forward[0, 0] = 1.0
    lost = 0
    for position in range(length):
        token = tokens[position]
        if token < LOST:
            for state in range(STATES):
                target = NEXT_STATE[state, token]
                if target >= 0:
                    forward[position + 1, target] += forward[position, state]
        else:
            for edge in range(len(EDGE_TABLE)):
                forward[position + 1, EDGE_TABLE[edge, 3]] += forward[position, EDGE_TABLE[edge, 0]] * np.exp(
                    total[lost, edge]
                )
            lost += 1
        forward[position + 1] /= forward[position + 1].max()
    probability = np.ones(length)
    backward = np.zeros(STATES)
    backward[0] = 1.0
    for position in range(length - 1, -1, -1):
        token = tokens[position]
        before = np.zeros(STATES)
        if token < LOST:
            for state in range(STATES):
                target = NEXT_STATE[state, token]
                if target >= 0:
                    before[state] = backward[target]
        else:
            lost -= 1
            normaliser = edge_mass = byte_prob = 0.0
            for edge in range(len(EDGE_TABLE)):
                source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
                weight = np.exp(total[lost, edge]) * backward[target]
                before[source] += weight
                normaliser += forward[position, source] * weight
                if EDGE_TABLE[edge, 1] <= chosen[position] <= EDGE_TABLE[edge, 2]:
                    edge_mass += forward[position, source] * backward[target]
                if best_byte[lost, edge] == chosen[position]:
                    byte_prob = np.exp(log_prob[lost, edge])
            probability[position] = byte_prob * edge_mass / normaliser
        backward = before / before.max()
    return probability


@compiled
def violation_kernel(tokens: Ints) -> NDArray[np.bool_]:
    """Find the fewest invalid bytes by Viterbi.

    An invalid non-ASCII byte costs 1, an invalid ASCII byte ASCII_COST, and a lost byte nothing.
    """
    length = len(tokens)
    previous_state = np.full((length, STATES), -1, dtype=np.int8)
    is_invalid = np.zeros((length, STATES), dtype=np.bool_)
    cost = np.full(STATES, np.inf)
    cost[0] = 0.0
    for position in range(length):
        reached = np.full(STATES, np.inf)
        token = tokens[position]
        for edge in range(len(EDGE_TABLE)):
            source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
            fits = token == LOST or EDGE_TABLE[edge, 1] <= token <= EDGE_TABLE[edge, 2]
            total = cost[source] + (0.0 if fits else 1.0 if token >= ASCII else ASCII_COST)
            if total < reached[target]:
                reached[target] = total
                previous_state[position, target], is_invalid[position, target] = source, not fits
        cost = reached
    invalid = np.zeros(length, dtype=np.bool_)
    state = 0
    for position in range(length - 1, -1, -1):
        invalid[position] = is_invalid[position, state]
        state = previous_state[position, state]
    return invalid


@compiled
def reachable_kernel(tokens: Ints, first: int) -> tuple[Ints, Ints]:
    """Run the forward and the backward pass of ``Utf8.reachable``; bit s of a set stands for state s."""
    length = len(tokens)
    after, before = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
    after[0], before[length] = first, 1
    for position in range(length):
        for edge in range(len(EDGE_TABLE)):
            fits = tokens[position] == LOST or EDGE_TABLE[edge, 1] <= tokens[position] <= EDGE_TABLE[edge, 2]
            if fits and after[position] >> EDGE_TABLE[edge, 0] & 1:
                after[position + 1] |= 1 << EDGE_TABLE[edge, 3]
    for position in range(length - 1, -1, -1):
        for edge in range(len(EDGE_TABLE)):
            fits = tokens[position] == LOST or EDGE_TABLE[edge, 1] <= tokens[position] <= EDGE_TABLE[edge, 2]
            if fits and before[position + 1] >> EDGE_TABLE[edge, 3] & 1:
                before[position] |= 1 << EDGE_TABLE[edge, 0]
    return after, before
