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
# NEXT_STATES[set of states, token] is the set of states after that token, and PREVIOUS_STATES the set before it. Bit s
# of a set stands for state s. The token LOST stands for any byte.
NEXT_STATES, PREVIOUS_STATES = np.zeros((2, 2**STATES, LOST + 1), dtype=np.int64)
_sets = np.arange(2**STATES)
for _source, _first, _last, _target in EDGES:
    for _tokens in (slice(_first, _last + 1), slice(LOST, None)):
        NEXT_STATES[_sets >> _source & 1 == 1, _tokens] |= 1 << _target
        PREVIOUS_STATES[_sets >> _target & 1 == 1, _tokens] |= 1 << _source
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
        edges, stuck = viterbi_kernel(run_tokens, candidates.log_prob, -np.inf, -np.inf)
        if stuck >= 0:
            position = int(selected[stuck])
            raise ConservatorError(
                "no bytes at the lost positions make the document valid UTF-8: the visible bytes around byte "
                f"{position} conflict"
            )
        rows, edges = np.arange(len(candidates)), edges[run_tokens == LOST]
        chosen = candidates.token[rows, edges]
        return chosen, marginal_kernel(run_tokens, candidates.total, chosen, candidates.log_prob[rows, edges])

    def violations(self, tokens: Tokens) -> NDArray[np.bool_]:
        """Return (L,) True at a smallest set of visible bytes whose removal makes the rest valid UTF-8.

        ASCII bytes are never in this set.
        """
        invalid = np.zeros(len(tokens), dtype=bool)
        selected = _non_ascii_runs(tokens)
        if selected.any():
            run_tokens = tokens[selected].astype(np.int64)
            no_preference = np.zeros((int((run_tokens == LOST).sum()), len(EDGES)))
            edges, _ = viterbi_kernel(run_tokens, no_preference, -1.0, -ASCII_COST)
            outside = (run_tokens < EDGE_TABLE[edges, 1]) | (run_tokens > EDGE_TABLE[edges, 2])
            invalid[selected] = outside & (run_tokens != LOST)
        return invalid

    def reachable(self, tokens: Tokens, before: int = 1 << START) -> tuple[Ints, Ints]:
        """Return the possible states before each token and after the last: two arrays (L + 1,) of bit sets.

        The first array has the states that the preceding tokens allow, starting from the set ``before``. The second has
        the states from which the following tokens are accepted.
        """
        return reachable_kernel(tokens.astype(np.int64), before)

    def next_states(self, states: int) -> Ints:
        """Return (256,) the set of states after each byte, from the set ``states``."""
        after: Ints = NEXT_STATES[states, :LOST]
        return after

    def advance(self, states: int) -> int:
        """Return the set of states after an arbitrary byte, from the set ``states``."""
        return int(NEXT_STATES[states, LOST])

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
def viterbi_kernel(tokens: Ints, log_prob: Floats, invalid: float, invalid_ascii: float) -> tuple[Ints, int]:
    """Run Viterbi over the automaton: the chosen edges (L,), and the first position without a valid byte, or -1.

    Args:
        tokens: (L,) bytes, or LOST.
        log_prob: (n, 16) the score of each edge at the n lost positions.
        invalid: the score of a visible non-ASCII byte at an edge that does not contain it; -inf excludes such edges.
        invalid_ascii: the same for an ASCII byte.
    """
    length = len(tokens)
    best_edge = np.full((length, STATES), -1, dtype=np.int8)
    score = np.full(STATES, -np.inf)
    score[0] = 0.0
    lost = 0
    for position in range(length):
        reached = np.full(STATES, -np.inf)
        token = tokens[position]
        for edge in range(len(EDGE_TABLE)):
            target, total = EDGE_TABLE[edge, 3], score[EDGE_TABLE[edge, 0]]
            if token == LOST:
                total += log_prob[lost, edge]
            elif not EDGE_TABLE[edge, 1] <= token <= EDGE_TABLE[edge, 2]:
                total += invalid if token >= ASCII else invalid_ascii
            if total > reached[target]:
                reached[target], best_edge[position, target] = total, edge
        lost += token == LOST
        score = reached
        if score.max() == -np.inf:
            return np.empty(0, dtype=np.int64), position
    edges = np.empty(length, dtype=np.int64)
    if score[0] == -np.inf:  # the document ends within a character
        return edges, length - 1
    state = 0
    for position in range(length - 1, -1, -1):
        edges[position] = best_edge[position, state]
        state = EDGE_TABLE[edges[position], 0]
    return edges, -1


@compiled
def edge_weight(token: int, total: Floats, lost: int, edge: int) -> float:
    """Return the probability of an edge at a token: 0 or 1 if the token is visible."""
    if token == LOST:
        return float(np.exp(total[lost, edge]))
    return 1.0 if EDGE_TABLE[edge, 1] <= token <= EDGE_TABLE[edge, 2] else 0.0


@compiled
def marginal_kernel(tokens: Ints, total: Floats, chosen: Ints, log_prob: Floats) -> Floats:
    """Run forward-backward over the automaton, every message scaled to a maximum of 1.

    Args:
        tokens: (L,) bytes, or LOST.
        total: (n, 16) the log-probability of each edge at the n lost positions.
        chosen: (n,) bytes for the lost positions.
        log_prob: (n,) the log-probabilities of these bytes.

    Returns:
        p(x_l = chosen_l | valid) (n,).
    """
    length, lost = len(tokens), 0
    forward = np.zeros((length + 1, STATES))
    forward[0, 0] = 1.0
    for position in range(length):
        for edge in range(len(EDGE_TABLE)):
            weight = edge_weight(tokens[position], total, lost, edge)
            forward[position + 1, EDGE_TABLE[edge, 3]] += forward[position, EDGE_TABLE[edge, 0]] * weight
        lost += tokens[position] == LOST
        forward[position + 1] /= forward[position + 1].max()
    probability = np.ones(len(chosen))
    backward = np.zeros(STATES)
    backward[0] = 1.0
    for position in range(length - 1, -1, -1):
        before = np.zeros(STATES)
        normaliser = edge_mass = 0.0
        is_lost = tokens[position] == LOST
        lost -= is_lost
        for edge in range(len(EDGE_TABLE)):
            source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
            weight = edge_weight(tokens[position], total, lost, edge) * backward[target]
            before[source] += weight
            normaliser += forward[position, source] * weight
            if is_lost and EDGE_TABLE[edge, 1] <= chosen[lost] <= EDGE_TABLE[edge, 2]:
                edge_mass += forward[position, source] * backward[target]
        if is_lost:
            probability[lost] = np.exp(log_prob[lost]) * edge_mass / normaliser
        backward = before / before.max()
    return probability


@compiled
def reachable_kernel(tokens: Ints, first: int) -> tuple[Ints, Ints]:
    """Run the forward and the backward pass of ``Utf8.reachable``; bit s of a set stands for state s."""
    length = len(tokens)
    after, before = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
    after[0], before[length] = first, 1
    for position in range(length):
        after[position + 1] = NEXT_STATES[after[position], tokens[position]]
    for position in range(length - 1, -1, -1):
        before[position] = PREVIOUS_STATES[before[position + 1], tokens[position]]
    return after, before
