"""Texts that may stand in places of a text, judged by language models."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conservator.decoders.rescoring.score_texts import explain
from conservator.decoders.rescoring.search import Trunk
from conservator.decoders.rescoring.spans import BLOCK, CONTEXT, JUDGES, Region, begins_word, whole_character
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Spot(NamedTuple):
    """A place of a text, in bytes, and the texts that may stand there."""

    start: int
    stop: int
    texts: tuple[bytes, ...]


def judge(
    experts: Sequence[CausalExpert], weights: Floats, text: bytes, spots: Sequence[Spot], meter: Meter
) -> list[Floats]:
    """For each spot, the log-probability of its texts by the pool of language models, up to a constant.

        score(t) = sum_i lambda_i log q_i(t and the words after it | text before it)

    Other spots are as they are in the text. Where a model cannot read the text, all texts have the same score.

    Args:
        experts: m causal experts.
        weights: (L, m) lambda, the weight of each at each byte of the text.
        text: valid UTF-8.
        spots: in order, apart from each other.
        meter: counts the tokens that are read, and reports progress.
    """
    longest = min((one.spec.max_length for one in experts if one.spec.max_length is not None), default=None)
    found: list[Floats] = []
    for begin, end, part in meter.steps(list(find_blocks(text, spots, longest))):
        here = [Spot(one.start - begin, one.stop - begin, one.texts) for one in part]
        try:
            trunks = [Trunk(one, text[begin:end], meter) for one in experts]
            found += judge_block(trunks, weights[begin:end], text[begin:end], here)
        except ConservatorError:  # a control character, say, for which a model has no token
            found += [np.zeros(len(one.texts)) for one in part]
    return found


def judge_block(trunks: Sequence[Trunk], weights: Floats, text: bytes, spots: Sequence[Spot]) -> list[Floats]:
    """The scores of the texts of each spot in a block that was read."""
    borders = trunks[0].borders
    for trunk in trunks[1:]:
        borders = np.intersect1d(borders, trunk.borders)
    words = np.array([border for border in borders.tolist() if begins_word(text, border)])
    jobs, shares = [], []
    for spot in spots:
        first = int(words[np.searchsorted(words, spot.start, side="right") - 1])
        last = int(words[np.searchsorted(words, min(spot.stop + JUDGES, len(text)))])
        region = Region(first, last, (spot.start,))
        jobs += [(region, text[first : spot.start] + one + text[spot.stop : last]) for one in spot.texts]
        shares += [weights[first:last].mean(axis=0)] * len(spot.texts)
    scores = np.stack([explain(trunk, jobs) for trunk in trunks], axis=1)
    pooled = (np.array(shares) * scores).sum(axis=1)
    return np.split(pooled, np.cumsum([len(one.texts) for one in spots])[:-1])


def find_blocks(text: bytes, spots: Sequence[Spot], longest: int | None) -> Iterator[tuple[int, int, list[Spot]]]:
    """Where each part of a text that is read at once begins and ends, and the spots in it.

    Args:
        text: the text.
        spots: in order.
        longest: about the most bytes that are read at once; None for any.
    """
    share = 1.0 if longest is None else min(1.0, longest / (BLOCK + 2 * CONTEXT))
    first = 0
    while first < len(spots):
        last = first + 1
        while last < len(spots) and spots[last].stop - spots[first].start <= share * BLOCK:
            last += 1
        near = max(0, spots[first].start - int(share * CONTEXT))
        begin = whole_character(text, near) if near else 0
        end = whole_character(text, min(len(text), spots[last - 1].stop + 2 * JUDGES))
        yield begin, end, list(spots[first:last])
        first = last
