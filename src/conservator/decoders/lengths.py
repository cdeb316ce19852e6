"""How many bytes are missing in a gap of unknown length: what is around it has to be likely."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel
from conservator.documents.damaged import ANY, Damaged
from conservator.documents.utf8 import EDGES, LOST, reachable
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.bayes import infer_bayes
from conservator.field.composite import check_experts, gather_evidence
from conservator.field.cost import Cost
from conservator.field.folds import DEFAULT, Schedule
from conservator.field.lattice import simplex_lattice

REACH = 64  # bytes that are read on either side of a gap
HEARD = 24  # bytes on either side that are asked of; farther ones hardly depend on the length
TYPICAL = 10.0  # bytes, the mean of the prior: a word and what is around it


@dataclass(frozen=True)
class Drawn(Schedule):
    """A schedule whose patterns are drawn already, so that lengths are compared on the same ones.

    Attributes:
        patterns_drawn: (N, patterns, L).
    """

    patterns_drawn: Tensor = field(kw_only=True)

    def draw(self, visible: Tensor, generator: torch.Generator) -> Tensor:
        """The patterns."""
        return self.patterns_drawn


def choose_lengths(
    experts: Sequence[Expert],
    damaged: Damaged,
    longest: int,
    generator: torch.Generator,
    cost: Cost,
    progress: Callable[[float], None] = lambda share: None,
) -> list[int]:
    """Choose the number of lost bytes of each gap, from the first to the last.

        argmax over n of  log p(what is visible around the gap | n bytes are missing) + log p(n),

    the composite evidence, with the field integrated out, and a geometric prior; among the lengths with which the
    document can be valid UTF-8. Where whole words are missing, evidence excludes lengths that are too short, but hardly
    tells the others apart: then the prior decides, and the length may be off by some bytes.

    Args:
        experts: m of them, over bytes.
        damaged: the document.
        longest: up to how many bytes a gap has.
        generator: draws which visible bytes are hidden together.
        cost: counts what is spent.
        progress: is told the share that is done.
    """
    if longest < 1:
        raise ConservatorError(f"gaps of at most {longest} bytes; at least 1 is needed")
    chosen: list[int] = []
    with cost.timed():
        for number in range(len(damaged.gaps)):
            tokens = damaged.with_lengths([*chosen, 0, *[ANY] * (len(damaged.gaps) - number - 1)]).tokens
            place = damaged.gaps[number][0] + sum(chosen)
            lengths = possible_lengths(tokens, place, longest)
            if not lengths:
                raise ConservatorError(
                    f"no length up to {longest} makes valid UTF-8 of the gap at byte {damaged.gaps[number][1][0]}"
                )
            around = tokens[max(0, place - REACH) : place + REACH]
            chosen.append(_likeliest(experts, around, min(place, REACH), lengths, generator, cost))
            progress((number + 1) / len(damaged.gaps))
    return chosen


def possible_lengths(tokens: NDArray[np.int64], place: int, longest: int) -> list[int]:
    """The lengths from 1 to ``longest`` of a gap before ``place`` with which ``tokens`` (L,) can be valid UTF-8."""
    forward, backward = reachable(tokens[:place])[0], reachable(tokens[place:])[1]
    states, found = int(forward[-1]), []
    for length in range(1, longest + 1):
        states = sum({1 << target for source, _, _, target in EDGES if states >> source & 1})
        if states & int(backward[0]):
            found.append(length)
    return found


def _likeliest(
    experts: Sequence[Expert],
    around: NDArray[np.int64],
    place: int,
    lengths: list[int],
    generator: torch.Generator,
    cost: Cost,
) -> int:
    """The length of the gap before ``place`` of ``around`` (L,) that is most likely; the shortest of equals."""
    context = check_experts(experts, 256)
    if len(around) + lengths[-1] > context:  # as much as the experts read at once, and of both sides
        start = max(0, min(place - (context - lengths[-1]) // 2, len(around) - (context - lengths[-1])))
        around = around[start : start + max(context - lengths[-1], 1)]
        place = min(place - start, len(around))
    near = torch.zeros(1, len(around), dtype=torch.bool)
    near[:, max(0, place - HEARD) : place + HEARD] = True
    text = torch.from_numpy(around)[None]
    patterns = DEFAULT.draw(near & (text != LOST), generator)
    weights, channel = simplex_lattice(len(experts)), MaskChannel(256, 0.5)
    evidence = []
    for length in lengths:
        observation = channel.observe(_widen(text, place, length, LOST))
        schedule = Drawn(DEFAULT.folds, DEFAULT.repeats, patterns_drawn=_widen(patterns, place, length, False))
        heard = gather_evidence(experts, observation, schedule, generator, torch.from_numpy(weights))
        cost.add(heard.cost)
        evidence.append(infer_bayes(heard.emissions[0].numpy(), weights).log_evidence - length / TYPICAL)
    return lengths[int(np.argmax(evidence))]


def _widen(values: Tensor, place: int, length: int, filler: int | bool) -> Tensor:
    """Insert ``length`` fillers before ``place`` of the last axis."""
    inserted = torch.full((*values.shape[:-1], length), filler, dtype=values.dtype)
    return torch.cat([values[..., :place], inserted, values[..., place:]], dim=-1)
