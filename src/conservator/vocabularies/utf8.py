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

from conservator.errors import ConservatorError
from conservator.numerics import compiled, runs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Tokens = NDArray[Any]

LOST = 256  # the token of a lost byte: the first number that is no byte
ASCII = 128  # ASCII bytes are below this
# The states of the automaton, named after the continuation bytes that may come next (Unicode 15, table 3-7).
START, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(8)
STATES = 8
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
LEAST = -100.0  # log-probabilities are raised to at least this, so that every valid choice has a finite one
NEVER = 1e9  # the cost of counting an ASCII byte as invalid, so high that it never happens
# NEXT[state, byte] is the state after that byte; -1 where there is none.
NEXT = np.full((STATES, LOST), -1, dtype=np.int64)
for _source, _first, _last, _target in EDGES:
    NEXT[_source, _first : _last + 1] = _target
# STEP[set of states, byte] is the set of states after that byte; sets are bits.
STEP = np.zeros((2**STATES, LOST), dtype=np.int64)
for _state in range(STATES):
    _moved = np.where(NEXT[_state] >= 0, 1 << np.maximum(NEXT[_state], 0), 0)
    STEP[np.arange(2**STATES) >> _state & 1 == 1] |= _moved
ANYWHERE = 2**STATES - 1  # the set of all states


@dataclass(frozen=True)
class Candidates:
    """Predictions for n lost bytes, reduced to the 16 edges of the automaton.

    Attributes:
        value: (n, 16) the log-probability of the best byte of each edge.
        byte: (n, 16) that byte.
        total: (n, 16) the log-probability of all bytes of the edge.
    """

    value: Floats
    byte: Ints
    total: Floats

    def __len__(self) -> int:
        """The number of lost bytes."""
        return len(self.value)

    def __getitem__(self, rows: Ints) -> "Candidates":
        """Those of some of the lost bytes."""
        return Candidates(self.value[rows], self.byte[rows], self.total[rows])

    def put(self, rows: Ints, other: "Candidates") -> None:
        """Replace the rows ``rows`` by those of ``other``."""
        self.value[rows], self.byte[rows], self.total[rows] = other.value, other.byte, other.total


@dataclass(frozen=True)
class Utf8:
    """The constraint that a text of bytes is valid UTF-8."""

    def reduce(self, log_probs: Tensor) -> Candidates:
        """Reduce predictions (n, 256) to the edges of the automaton."""
        log_probs = log_probs.clamp_min(LEAST)
        parts = [log_probs[:, first : last + 1] for _, first, last, _ in EDGES]
        best = [part.max(dim=1) for part in parts]
        first = torch.tensor([edge[1] for edge in EDGES])
        return Candidates(
            torch.stack([one.values for one in best], dim=1).double().numpy(),
            (torch.stack([one.indices for one in best], dim=1) + first).numpy(),
            torch.stack([part.logsumexp(dim=1) for part in parts], dim=1).double().numpy(),
        )

    def unread(self, tokens: Tokens) -> Candidates:
        """Candidates for n bytes before they are predicted: ``tokens`` (n,), unless visible bytes need others.

        Where a token is LOST, or in no valid UTF-8, it is a space.
        """
        first, last = EDGE_TABLE[:, 1], EDGE_TABLE[:, 2]
        inside = (first <= tokens[:, None]) & (tokens[:, None] <= last)
        byte = np.where(inside, tokens[:, None], np.where(first == 0, ord(" "), first))
        inside[:, 0] |= ~inside.any(axis=1)
        value = np.where(inside, 0.0, LEAST)
        return Candidates(value, byte.astype(np.int64), value.copy())

    def best(self, tokens: Tokens, candidates: Candidates) -> tuple[Ints, Floats]:
        """The most likely valid UTF-8 if bytes are independent, and the probability of each lost byte; both are exact.

            argmax over valid UTF-8 x that agrees with the visible bytes of  sum over lost l of  log p_l(x_l)

        Args:
            tokens: (L,) bytes, or LOST.
            candidates: of the n lost bytes, in their order.

        Returns:
            The bytes at the lost positions (n,), and p(x_l | the document is valid UTF-8) (n,).
        """
        lost = tokens == LOST
        if not lost.any():
            return np.empty(0, dtype=np.int64), np.empty(0)
        kept = np.flatnonzero(_runs_apart(tokens, lost))
        short = tokens[kept].astype(np.int64)
        chosen, stuck = choose_kernel(short, candidates.value, candidates.byte)
        if stuck >= 0:
            place = int(kept[stuck])
            raise ConservatorError(
                f"no choice of the lost bytes makes valid UTF-8: the bytes around {place} allow none"
            )
        probability = weigh_kernel(short, candidates.value, candidates.byte, candidates.total, chosen)
        return chosen[short == LOST], probability[short == LOST]

    def violations(self, tokens: Tokens) -> NDArray[np.bool_]:
        """(L,) True at the fewest visible bytes that must count as lost for the rest to fit into valid UTF-8.

        An ASCII byte is never among them.
        """
        found = np.zeros(len(tokens), dtype=bool)
        kept = _runs_apart(tokens)
        if kept.any():
            found[kept] = invalid_kernel(tokens[kept].astype(np.int64))
        return found

    def reachable(self, tokens: Tokens, before: int = 1 << START) -> tuple[Ints, Ints]:
        """The possible states of the automaton before each token and after the last: two arrays (L + 1,) of bit sets.

        The first array has the states that the tokens before allow, starting from the set ``before``. The second has
        the states from which the tokens that follow are accepted.
        """
        return reachable_kernel(tokens.astype(np.int64), before)

    def step(self, states: int) -> Ints:
        """(256,) for each byte the set of states after it, from the set ``states``."""
        after: Ints = STEP[states]
        return after

    def advance(self, states: int) -> int:
        """The set of states after any byte, from the set ``states``."""
        return sum({1 << target for source, _, _, target in EDGES if states >> source & 1})

    def seal(self, tokens: Tokens, cuts: Ints) -> Tokens:
        """Replace incomplete characters at ``cuts`` by spaces; bytes of the document are left out before each cut.

        The result is valid UTF-8 if the whole document is, and no byte near a cut is lost.
        """
        sealed = tokens.copy()
        for cut in cuts.tolist():
            place = cut
            while place < len(tokens) and ASCII <= tokens[place] < 0xC0:  # the end of a character that the cut divides
                sealed[place] = ord(" ")
                place += 1
            place = cut - 1
            while place >= 0 and ASCII <= tokens[place] < LOST:  # the beginning of a character that the cut divides
                sealed[place] = ord(" ")
                if tokens[place] >= 0xC0:
                    break
                place -= 1
        return sealed


def _runs_apart(tokens: Tokens, wanted: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """(L,) True at the runs of tokens that are not ASCII, and at the ASCII byte on either side of each.

    With ``wanted`` (L,), only the runs in which ``wanted`` is True somewhere.
    """
    other = tokens >= ASCII
    if wanted is not None:
        edges = np.array(runs(other), dtype=np.int64).reshape(-1, 2)
        count = np.concatenate([[0], np.cumsum(wanted)])
        other[other] = np.repeat(count[edges[:, 1]] > count[edges[:, 0]], edges[:, 1] - edges[:, 0])
    apart = other.copy()
    apart[1:] |= other[:-1]
    apart[:-1] |= other[1:]
    return apart


@compiled
def choose_kernel(tokens: Ints, value: Floats, byte: Ints) -> tuple[Ints, int]:
    """Viterbi over the automaton: the chosen bytes (L,), and the position at which no valid byte is left, or -1."""
    length = len(tokens)
    came_from = np.full((length, STATES), -1, dtype=np.int8)
    came_by = np.zeros((length, STATES), dtype=np.int16)
    score = np.full(STATES, -np.inf)
    score[0] = 0.0
    lost = 0
    for place in range(length):
        reached = np.full(STATES, -np.inf)
        token = tokens[place]
        if token < LOST:
            for state in range(STATES):
                target = NEXT[state, token]
                if target >= 0 and score[state] > reached[target]:
                    reached[target] = score[state]
                    came_from[place, target], came_by[place, target] = state, token
        else:
            for edge in range(len(EDGE_TABLE)):
                source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
                total = score[source] + value[lost, edge]
                if total > reached[target]:
                    reached[target] = total
                    came_from[place, target], came_by[place, target] = source, byte[lost, edge]
            lost += 1
        score = reached
        if score.max() == -np.inf:
            return np.empty(0, dtype=np.int64), place
    chosen = np.empty(length, dtype=np.int64)
    if score[0] == -np.inf:  # the document ends within a character
        return chosen, length - 1
    state = 0
    for place in range(length - 1, -1, -1):
        chosen[place] = came_by[place, state]
        state = came_from[place, state]
    return chosen, -1


@compiled
def weigh_kernel(tokens: Ints, value: Floats, byte: Ints, total: Floats, chosen: Ints) -> Floats:
    """Forward-backward over the automaton: p(x_l = chosen_l | valid), every message scaled to a maximum of 1."""
    length = len(tokens)
    forward = np.zeros((length + 1, STATES))
    forward[0, 0] = 1.0
    lost = 0
    for place in range(length):
        token = tokens[place]
        if token < LOST:
            for state in range(STATES):
                target = NEXT[state, token]
                if target >= 0:
                    forward[place + 1, target] += forward[place, state]
        else:
            for edge in range(len(EDGE_TABLE)):
                forward[place + 1, EDGE_TABLE[edge, 3]] += forward[place, EDGE_TABLE[edge, 0]] * np.exp(
                    total[lost, edge]
                )
            lost += 1
        forward[place + 1] /= forward[place + 1].max()
    probability = np.ones(length)
    backward = np.zeros(STATES)
    backward[0] = 1.0
    for place in range(length - 1, -1, -1):
        token = tokens[place]
        before = np.zeros(STATES)
        if token < LOST:
            for state in range(STATES):
                target = NEXT[state, token]
                if target >= 0:
                    before[state] = backward[target]
        else:
            lost -= 1
            whole = own = alone = 0.0
            for edge in range(len(EDGE_TABLE)):
                source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
                weight = np.exp(total[lost, edge]) * backward[target]
                before[source] += weight
                whole += forward[place, source] * weight
                if EDGE_TABLE[edge, 1] <= chosen[place] <= EDGE_TABLE[edge, 2]:
                    own += forward[place, source] * backward[target]
                if byte[lost, edge] == chosen[place]:
                    alone = np.exp(value[lost, edge])
            probability[place] = alone * own / whole
        backward = before / before.max()
    return probability


@compiled
def invalid_kernel(tokens: Ints) -> NDArray[np.bool_]:
    """Viterbi for the fewest invalid bytes: a visible byte costs 1, an ASCII byte NEVER, and a lost byte nothing."""
    length = len(tokens)
    came_from = np.full((length, STATES), -1, dtype=np.int8)
    given_up = np.zeros((length, STATES), dtype=np.bool_)
    price = np.full(STATES, np.inf)
    price[0] = 0.0
    for place in range(length):
        reached = np.full(STATES, np.inf)
        token = tokens[place]
        for edge in range(len(EDGE_TABLE)):
            source, target = EDGE_TABLE[edge, 0], EDGE_TABLE[edge, 3]
            fits = token == LOST or EDGE_TABLE[edge, 1] <= token <= EDGE_TABLE[edge, 2]
            total = price[source] + (0.0 if fits else 1.0 if token >= ASCII else NEVER)
            if total < reached[target]:
                reached[target] = total
                came_from[place, target], given_up[place, target] = source, not fits
        price = reached
    invalid = np.zeros(length, dtype=np.bool_)
    state = 0
    for place in range(length - 1, -1, -1):
        invalid[place] = given_up[place, state]
        state = came_from[place, state]
    return invalid


@compiled
def reachable_kernel(tokens: Ints, first: int) -> tuple[Ints, Ints]:
    """The forward and the backward pass of ``Utf8.reachable``; bit s of a set stands for state s."""
    length = len(tokens)
    after, before = np.zeros(length + 1, dtype=np.int64), np.zeros(length + 1, dtype=np.int64)
    after[0], before[length] = first, 1
    for place in range(length):
        for edge in range(len(EDGE_TABLE)):
            fits = tokens[place] == LOST or EDGE_TABLE[edge, 1] <= tokens[place] <= EDGE_TABLE[edge, 2]
            if fits and after[place] >> EDGE_TABLE[edge, 0] & 1:
                after[place + 1] |= 1 << EDGE_TABLE[edge, 3]
    for place in range(length - 1, -1, -1):
        for edge in range(len(EDGE_TABLE)):
            fits = tokens[place] == LOST or EDGE_TABLE[edge, 1] <= tokens[place] <= EDGE_TABLE[edge, 2]
            if fits and before[place + 1] >> EDGE_TABLE[edge, 3] & 1:
                before[place] |= 1 << EDGE_TABLE[edge, 0]
    return after, before
