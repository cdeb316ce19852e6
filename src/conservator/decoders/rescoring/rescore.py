"""A text with some bytes open, written again by causal experts: the posterior of whole fills, region by region."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.rescoring.score_texts import explain
from conservator.decoders.rescoring.search import Energies, Limits, Trunk, search
from conservator.decoders.rescoring.spans import Block, Region, find_blocks, find_regions
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert

ROUNDS = 2
SETTLED = 0.99  # the probability from which a fill is not looked at again
BEFORE, AFTER = 16, 48  # bytes around a changed one in which open bytes are looked at again

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Fills = dict[bytes, float]  # fill -> its probability


@dataclass(frozen=True)
class Judged:
    """A region and the posterior of its fills, the most probable first; positions are those of the whole text."""

    region: Region
    fills: Fills

    def marginal(self, place: int, byte: int) -> float:
        """The probability of a byte at an open place."""
        number = self.region.open.index(place)
        return sum(share for fill, share in self.fills.items() if fill[number] == byte)


@dataclass(frozen=True)
class Rescored:
    """A text that was written again.

    Attributes:
        text: with the most probable fill of each region.
        confidence: position -> the posterior probability of its byte, for each open position that was judged.
        judged: position -> the region in which it was judged last.
    """

    text: bytes
    confidence: dict[int, float]
    judged: dict[int, Judged]

    def fills_of(self, start: int, stop: int) -> Fills:
        """The posterior of the bytes from ``start`` to ``stop``, if they were judged together; else nothing."""
        one = self.judged.get(start)
        if one is None or any(self.judged.get(place) is not one for place in range(start, stop)):
            return {}
        first = one.region.open.index(start)
        found: Fills = {}
        for fill, probability in one.fills.items():
            part = fill[first : first + stop - start]
            found[part] = found.get(part, 0.0) + probability
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def rewrite(
    experts: Sequence[CausalExpert],
    weights: Floats,
    text: bytes,
    places: Ints,
    energies: Energies,
    meter: Meter,
    limits: Limits | None = None,
) -> Rescored:
    """Choose the open bytes of a text again, as whole fills of regions.

    A fill has the score of the paper's sequence-level pool: the energies of its bytes by two-sided experts, and for
    each causal expert, by its weight, the log-probability of the region with the fill in it. Its visible bytes to the
    right have their say, because the expert must explain them.

        score(fill) = sum_i lambda_i log q_i(region with the fill | text before it) + sum of the energies of its bytes

    Within a region, the posterior over fills is exact up to the limits of the search. Other regions are as they were
    chosen before; what that leaves in doubt is looked at again in a second round.

    Args:
        experts: m causal experts.
        weights: (L, m) lambda, the weight of each at each byte of the text.
        text: with the best guess so far at open places; valid UTF-8.
        places: (n,) the open places, ascending.
        energies: for each open place.
        meter: counts tokens that are read as evaluations, and reports progress.
        limits: of the search; those of ``Limits`` if none are given.
    """
    limits = limits or Limits()
    longest = min((one.spec.max_length for one in experts if one.spec.max_length is not None), default=None)
    judged: dict[int, Judged] = {}
    confidence: dict[int, float] = {}
    data, left = bytearray(text), places
    for _ in meter.steps(range(ROUNDS)):
        again: list[Ints] = [places[:0]]
        for block in meter.steps(find_blocks(left, bytes(data), longest)):
            for one in judge(experts, weights, bytes(data), block, energies, limits, meter):
                fill, probability = next(iter(one.fills.items()))
                if probability < SETTLED:
                    again.append(np.array(one.region.open))
                for number, place in enumerate(one.region.open):
                    judged[place] = one
                    confidence[place] = one.marginal(place, fill[number])
                    if data[place] != fill[number]:
                        data[place] = fill[number]
                        again.append(places[(places >= place - BEFORE) & (places <= place + AFTER)])
        left = np.unique(np.concatenate(again))
    return Rescored(bytes(data), confidence, judged)


def judge(
    experts: Sequence[CausalExpert],
    weights: Floats,
    text: bytes,
    block: Block,
    energies: Energies,
    limits: Limits,
    meter: Meter,
) -> list[Judged]:
    """The posterior of the fills of each region of a block, given the rest of the text.

    Every expert searches for fills; where there are several, all of them score what any of them found. A block that
    some expert cannot read is left as it is.
    """
    part = text[block.begin : block.end]
    here = {place - block.begin: energies[place] for place in (block.places + block.begin).tolist()}
    try:
        trunks = [Trunk(one, part, meter) for one in experts]
    except ConservatorError:  # a control character, say, for which a model has no token
        return []
    borders = trunks[0].borders
    for trunk in trunks[1:]:
        borders = np.intersect1d(borders, trunk.borders)
    regions = find_regions(block.places, part, borders)
    found = [search(trunk, part, regions, here, limits) for trunk in trunks]
    if len(trunks) == 1:
        scored = found[0]
    else:
        scored = together(trunks, weights[block.begin : block.end], part, regions, found, here)
    judged = []
    for region, scores in zip(regions, scored, strict=True):
        allowed = {fill: score for fill, score in scores.items() if is_text(region.filled(part, fill))}
        if allowed:
            moved = tuple(place + block.begin for place in region.open)
            whole = Region(region.start + block.begin, region.end + block.begin, moved)
            judged.append(Judged(whole, posterior(allowed)))
    return judged


def together(
    trunks: Sequence[Trunk],
    weights: Floats,
    text: bytes,
    regions: Sequence[Region],
    found: Sequence[Sequence[Fills]],
    energies: Energies,
) -> list[Fills]:
    """The scores, by all experts with their weights, of every fill that any of them found."""
    fills = [sorted(set().union(*one)) for one in zip(*found, strict=True)]
    jobs = [(number, fill) for number, choices in enumerate(fills) for fill in choices]
    jobs = [(number, fill) for number, fill in jobs if is_text(regions[number].filled(text, fill))]
    texts = [(regions[number], regions[number].filled(text, fill)) for number, fill in jobs]
    share = np.array([weights[region.start : region.end].mean(axis=0) for region in regions]).reshape(len(regions), -1)
    scored: list[Fills] = [{} for _ in regions]
    rows = np.stack([explain(trunk, texts) for trunk in trunks])
    for (number, fill), row in zip(jobs, rows.T, strict=True):
        other = sum(energies[place][byte] for place, byte in zip(regions[number].open, fill, strict=True))
        scored[number][fill] = float(share[number] @ row + other)
    return scored


def posterior(scores: Fills) -> Fills:
    """The fills with their probabilities, the most probable first."""
    total = np.logaddexp.reduce(list(scores.values()))
    ordered = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return {fill: float(np.exp(score - total)) for fill, score in ordered}


def is_text(data: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
