"""Choose how many bytes are missing in a gap of unknown length, by the likelihood of the text around it."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel
from conservator.documents import DamagedDocument, Surroundings
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import DEFAULT, grid_evidence, grid_posterior, hide, simplex_grid
from conservator.vocabularies import BYTES
from conservator.vocabularies.utf8 import ANYWHERE

REACH = 64  # bytes that are read on either side of a gap
PREDICTED = 24  # bytes on either side that are predicted; farther ones hardly depend on the length
# Bytes on either side that are compared with known texts, and the share of the prior that the lengths found there have:
# how often they were right for words and phrases that were taken out of documents.
RECALLED = {16: 0.9, 12: 0.6, 8: 0.4, 6: 0.2}
UNKNOWN = 0xFE  # a byte that occurs in no UTF-8
TYPICAL = 10.0  # bytes: the mean of the geometric prior, about a word with what is around it


def choose_lengths(
    team: Team,
    damaged: DamagedDocument,
    longest: int,
    generator: torch.Generator,
    known: Sequence[NDArray[np.integer[Any]]] = (),
) -> tuple[list[int], list[float]]:
    """Choose the number of lost bytes of each gap, from the first to the last, and say how probable it is.

        argmax over n of  log p(visible text around the gap | n bytes are missing) + log p(n)

    The first term is the composite evidence with the field integrated out. The second is the prior: geometric, but
    where the text on both sides of the gap stands in ``known`` texts, partly the lengths that it has there. Lengths
    with which the document cannot be valid UTF-8 are left out. If whole words are missing, the evidence excludes those
    that are too short, but hardly distinguishes the others. Then the prior decides, and the length may be off by some
    bytes.

    Args:
        team: m experts over bytes.
        damaged: the document.
        longest: the largest length of a gap that is considered, in bytes.
        generator: draws which visible bytes are hidden together.
        known: texts (n,) as bytes, or other numbers where a byte is not known.
    """
    if longest < 1:
        raise ConservatorError(f"gaps of at most {longest} bytes; at least 1 is needed")
    chosen: list[int] = []
    probability: list[float] = []
    texts = [readable(text) for text in known]
    for number in team.meter.steps(range(len(damaged.gaps))):
        around = damaged.around_gap(number, chosen, REACH)
        lengths = possible_lengths(around, longest)
        if not lengths:
            offset = damaged.spans[damaged.gaps[number], 0]
            raise ConservatorError(f"no length up to {longest} makes valid UTF-8 of the gap at byte {offset}")
        prior = length_prior(lengths, *recalled_lengths(around, texts, longest))
        length, sure = _likeliest(team, around.tokens, around.place, lengths, prior, generator)
        chosen.append(length)
        probability.append(sure)
    return chosen, probability


def readable(text: NDArray[np.integer[Any]]) -> bytes:
    """A text as bytes, with a byte that occurs in no UTF-8 where it is not known."""
    return np.where((text < 0) | (text >= BYTES.size), UNKNOWN, text).astype(np.uint8).tobytes()


def recalled_lengths(around: Surroundings, texts: list[bytes], longest: int) -> tuple[Counter[int], float]:
    """How often the text before a gap and the text after it stand in known texts, by how many bytes apart.

    As much of the text as RECALLED bytes on either side is compared, or if that is found nowhere, less of it. The
    second value is the share of the prior that these lengths have; 0 if nothing is found.
    """
    left, right = readable(around.tokens[: around.place]), readable(around.tokens[around.place :])
    for size, trust in RECALLED.items():
        before, after = left[-size:], right[:size]
        if len(before) < size or len(after) < size or UNKNOWN in before or UNKNOWN in after:
            continue
        found: Counter[int] = Counter()
        pattern = re.compile(re.escape(before) + b"(?=(.{1,%d}?)%s)" % (longest, re.escape(after)), re.DOTALL)
        for text in texts:
            found.update(len(match.group(1)) for match in pattern.finditer(text) if UNKNOWN not in match.group(1))
        if found:
            return found, trust
    return Counter(), 0.0


def length_prior(lengths: list[int], memory_weight: Counter[int], trust: float) -> NDArray[np.float64]:
    """(n,) log p(length): geometric, and with the share ``trust`` what was recalled."""
    prior = np.exp(-np.array(lengths) / TYPICAL)
    prior /= prior.sum()
    counts = np.array([memory_weight[length] for length in lengths], dtype=np.float64)
    if counts.any():
        prior = (1 - trust) * prior + trust * counts / counts.sum()
    found: NDArray[np.float64] = np.log(prior)
    return found


def possible_lengths(around: Surroundings, longest: int) -> list[int]:
    """The lengths from 1 to ``longest`` of a gap with which the text around it can be valid UTF-8."""
    utf8, left, right = BYTES.constraint, around.tokens[: around.place], around.tokens[around.place :]
    if around.goes_on_after:  # its last character may be cut off
        right = utf8.seal(right, np.array([len(right)]))
    forward = utf8.reachable(left, ANYWHERE if around.goes_on_before else 1)[0]
    backward = utf8.reachable(right)[1]
    states, found = int(forward[-1]), []
    for length in range(1, longest + 1):
        states = utf8.advance(states)
        if states & int(backward[0]):
            found.append(length)
    return found


def _likeliest(
    team: Team,
    around: NDArray[np.int64],
    place: int,
    lengths: list[int],
    prior: NDArray[np.float64],
    generator: torch.Generator,
) -> tuple[int, float]:
    """The most likely length of the gap before ``place`` in the text ``around`` (L,), and its probability.

    The shortest of a tie is chosen.
    """
    mask, room = team.vocabulary.mask, team.context - lengths[-1]
    if len(around) > room:  # keep as much as the experts read at once, from both sides of the gap
        start = max(0, min(place - room // 2, len(around) - room))
        around = around[start : start + max(room, 1)]
        place = min(place - start, len(around))
    evidence_radius = torch.zeros(1, len(around), dtype=torch.bool)
    evidence_radius[:, max(0, place - PREDICTED) : place + PREDICTED] = True
    text = torch.from_numpy(around)[None]
    patterns = DEFAULT.draw(evidence_radius & (text != mask), generator)
    weights, channel = simplex_grid(len(team)), MaskChannel(team.vocabulary.size, 0.5)
    evidence = []
    for length in team.meter.steps(lengths):
        observation = channel.observe(_widen(text, place, length, mask))
        predicted = _widen(patterns, place, length, False)  # lengths are compared on the same patterns
        hidden = hide(predicted, observation, None, generator)
        found = grid_evidence(team, observation, predicted, hidden, torch.from_numpy(weights), repeats=DEFAULT.repeats)
        posterior = grid_posterior(found.emissions[0].numpy(), weights)
        evidence.append(posterior.log_evidence)
    scores = np.array(evidence) + prior
    return lengths[int(np.argmax(scores))], float(np.exp(scores.max() - np.logaddexp.reduce(scores)))


def _widen(values: Tensor, place: int, length: int, filler: int | bool) -> Tensor:
    """Insert ``length`` fillers before ``place`` of the last axis."""
    inserted = torch.full((*values.shape[:-1], length), filler, dtype=values.dtype)
    return torch.cat([values[..., :place], inserted, values[..., place:]], dim=-1)
