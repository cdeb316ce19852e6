"""The best joint fills of a gap: a beam that reads again what it has filled in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.decoders.text import DecodedText
from conservator.documents.utf8 import LOST, NEXT, STATES, find_invalid, reachable
from conservator.errors import ConservatorError
from conservator.experts.expert import PAD, Expert
from conservator.field.composite import rows_at_once
from conservator.field.composition import Composition
from conservator.field.cost import Cost, count

REACH = 96  # bytes that are read on either side of a gap
LONGEST = 64  # bytes of a gap: a longer one has too many fills for any of them to be likely
FAR = 8.0  # nats behind the best at which a beginning is given up

# STEP[set of states, byte] is the set of states after that byte; sets are bits.
STEP = np.zeros((2**STATES, 256), dtype=np.int64)
for _state in range(STATES):
    _moved = np.where(NEXT[_state] >= 0, 1 << np.maximum(NEXT[_state], 0), 0)
    STEP[np.arange(2**STATES) >> _state & 1 == 1] |= _moved


@dataclass(frozen=True)
class Fill:
    """A way to fill a gap.

    Attributes:
        data: its bytes.
        probability: of all of them together, given what is visible.
    """

    data: bytes
    probability: float


@dataclass(frozen=True)
class Beginning:
    """The first bytes of a fill: their log-probability, and the states that the automaton may be in after them."""

    data: tuple[int, ...]
    score: float
    states: int


def best_fills(
    experts: Sequence[Expert],
    tokens: NDArray[np.int64],
    context: NDArray[np.int64],
    spans: Sequence[tuple[int, int]],
    composition: Composition,
    log_probs: Tensor,
    wanted: int,
    cost: Cost,
    progress: Callable[[float], None] = lambda share: None,
) -> list[tuple[Fill, ...]]:
    """The ``wanted`` most likely joint fills of each gap, the most likely first.

        p(x_1 ... x_n | visible) = prod_k p(x_k | visible, x_1 ... x_{k-1}),   each factor read anew

    Of other gaps, what was surely filled in is read, and the rest stays hidden. Fills are valid UTF-8 where they stand.

    Args:
        experts: m of them, over bytes.
        tokens: (L,) the document: bytes, or LOST.
        context: (L,) the same with the bytes that are sure.
        spans: the gaps, as ranges of lost bytes; those longer than LONGEST get no fills.
        composition: what is believed of the field, of one sequence.
        log_probs: (lost bytes, 256) what is thought of each lost byte that is a gap of its own, read in this context.
        wanted: how many.
        cost: counts what is spent.
        progress: is told the share that is done.
    """
    forward, backward = reachable(tokens)
    row = np.cumsum(tokens == LOST) - 1
    active = [number for number, (start, stop) in enumerate(spans) if stop - start <= LONGEST]
    beams: dict[int, list[Beginning]] = {
        number: [Beginning((), 0.0, int(forward[spans[number][0]]))] for number in active
    }
    total = sum(spans[number][1] - spans[number][0] for number in active)
    width, done = max(wanted, 4), 0
    with cost.timed():
        for step in range(max((spans[number][1] - spans[number][0] for number in active), default=0)):
            growing = [number for number in active if step < spans[number][1] - spans[number][0]]
            known = [number for number in growing if spans[number][1] - spans[number][0] == 1]
            heard = {number: log_probs[row[spans[number][0]]][None].double().numpy() for number in known}
            asked = [number for number in growing if number not in heard]
            heard |= _read_beams(experts, context, spans, composition, beams, asked, cost)
            for number in growing:
                start, stop = spans[number]
                grown = _grow(beams[number], heard[number], int(backward[start + step + 1]), width)
                whole = start + step + 1 == stop
                beams[number] = [one for one in grown if whole or one.score > grown[0].score - FAR]
            done += len(growing)
            progress(done / total)
    return [
        tuple(Fill(bytes(one.data), float(np.exp(one.score))) for one in beams.get(number, [])[:wanted])
        for number in range(len(spans))
    ]


def take_best(
    decoded: DecodedText, lost: NDArray[np.bool_], spans: Sequence[tuple[int, int]], fills: Sequence[tuple[Fill, ...]]
) -> DecodedText:
    """Put the best joint fill of each gap into the text, as far as that stays valid UTF-8 with what else was chosen.

    The confidence of a byte stays its own probability.
    """
    if decoded.log_probs is None:
        raise ConservatorError("the text was decoded without keeping what was thought of its bytes")
    tokens, confidence = decoded.tokens.copy(), decoded.confidence.copy()
    row = np.cumsum(lost) - 1
    for (start, stop), found in zip(spans, fills, strict=True):
        best = list(found[0].data) if found else None
        if best is None or best == tokens[start:stop].tolist():
            continue
        before = tokens[start:stop].copy()
        tokens[start:stop] = best
        if _is_valid_around(tokens, start, stop):  # two gaps may share a character, and each was filled for itself
            own = decoded.log_probs[row[start:stop], best].double().exp().numpy()
            confidence[start:stop] = np.where(before == best, confidence[start:stop], own)
        else:
            tokens[start:stop] = before
    return replace(decoded, tokens=tokens, confidence=confidence)


def _is_valid_around(tokens: NDArray[np.int64], start: int, stop: int) -> bool:
    """Whether the characters that reach into a stretch of an otherwise valid document are valid."""
    begin, end = max(start - 1, 0), stop
    while begin > 0 and tokens[begin] & 0xC0 == 0x80:
        begin -= 1
    while end < len(tokens) and tokens[end] & 0xC0 == 0x80:
        end += 1
    return not find_invalid(tokens[begin:end]).any()


def _grow(beam: list[Beginning], log_probs: NDArray[np.float64], allowed: int, width: int) -> list[Beginning]:
    """Append a byte to each beginning, and keep the best; what leaves no valid text has no probability."""
    grown = []
    for one, rows in zip(beam, log_probs, strict=True):
        states = STEP[one.states] & allowed
        scores = np.where(states > 0, rows, -np.inf)
        scores = one.score + scores - np.logaddexp.reduce(scores)
        for byte in np.argsort(-scores, kind="stable")[:width].tolist():
            if np.isfinite(scores[byte]):
                grown.append(Beginning((*one.data, byte), float(scores[byte]), int(states[byte])))
    grown.sort(key=lambda one: (-one.score, one.data))
    return grown[:width]


def _read_beams(
    experts: Sequence[Expert],
    context: NDArray[np.int64],
    spans: Sequence[tuple[int, int]],
    composition: Composition,
    beams: dict[int, list[Beginning]],
    growing: list[int],
    cost: Cost,
) -> dict[int, NDArray[np.float64]]:
    """Read the surroundings of each gap with each of its beginnings: the log-probabilities of the next byte."""
    counted = count(experts, cost)
    longest = min((expert.spec.max_length for expert in experts if expert.spec.max_length), default=2**30)
    jobs = [(number, one) for number in growing for one in beams[number]]
    heard: dict[int, list[NDArray[np.float64]]] = {number: [] for number in growing}
    size = min(2 * REACH + LONGEST, longest)
    batch = rows_at_once(size, 256, len(experts))
    for begin in range(0, len(jobs), batch):
        part = jobs[begin : begin + batch]
        rows = torch.full((len(part), size), PAD)
        places, positions = [], []
        for line, (number, one) in enumerate(part):
            first, last = spans[number]
            place = first + len(one.data)
            # What is read: as much of the surroundings as fits, on both sides of the byte that is asked for.
            start = max(0, min(max(first - REACH, place - size // 2), len(context) - size))
            stop = min(len(context), last + REACH, start + size)
            text = context[start:stop].copy()
            text[max(first - start, 0) : last - start] = LOST
            kept = [byte for at, byte in enumerate(one.data, first) if at >= start]
            text[place - start - len(kept) : place - start] = kept
            rows[line, : stop - start] = torch.from_numpy(text)
            places.append(place - start)
            positions.append(place)
        rows = rows[:, : int((rows != PAD).sum(-1).max())]
        hidden = rows == LOST
        kappa = 1 - hidden.float().mean(-1)
        each = torch.arange(len(part))
        said = torch.stack(
            [expert.log_probs(rows.masked_fill(hidden, 0), hidden, kappa)[each, places] for expert in counted]
        ).float()
        mixed = composition.log_probs(said, torch.zeros(len(part), dtype=torch.long), torch.tensor(positions))
        for (number, _), one_row in zip(part, mixed.double().numpy(), strict=True):
            heard[number].append(one_row)
    return {number: np.stack(found) for number, found in heard.items()}
