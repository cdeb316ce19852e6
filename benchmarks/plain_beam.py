"""The alternative to composing: a language model alone writes a damaged text again, from left to right, with a beam."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from conservator.experts.causal import ROOT, CausalExpert
from conservator.vocabularies import BYTES

WIDTH = 8  # hypotheses that are kept at a place
FAR = 10.0  # nats behind the best from which a hypothesis is dropped


class Hypothesis(NamedTuple):
    """The first bytes of the text; the last token, after the node ``parent``, is still to be read."""

    score: float
    data: bytes
    parent: int
    token: int


def write_again(expert: CausalExpert, pattern: Sequence[int]) -> bytes:
    """The likeliest text that a beam finds, with any cut into tokens; every visible byte agrees with a pattern.

    Hypotheses that end at the same byte compete. Those that end first are read first, in one batch, each token once.
    One that is far behind a longer one is dropped, too: it can only lose.

    Args:
        expert: the language model.
        pattern: the bytes of the text, or the mask.
    """
    tokens, reading, nodes = expert.spec.tokens, expert.read(), 1
    ends: defaultdict[int, list[Hypothesis]] = defaultdict(list)
    due, read = [Hypothesis(0.0, b"", ROOT, -1)], [ROOT]
    laws = reading.grow([], [], read).numpy()
    place = 0
    while place < len(pattern):
        rows = tokens.fitting(pattern[place : place + tokens.longest])
        lengths, numbers = tokens.lengths[rows], tokens.numbers[rows]
        for one, node, law in zip(due, read, laws, strict=True):
            scores = one.score + law[numbers]
            for length in np.unique(lengths).tolist():
                here = np.flatnonzero(lengths == length)
                for choice in here[np.argsort(-scores[here], kind="stable")[:WIDTH]].tolist():
                    token = int(numbers[choice])
                    longer = Hypothesis(float(scores[choice]), one.data + tokens.pieces[token], node, token)
                    ends[place + length].append(longer)
        due = []
        while not due:
            place = min(ends)
            best = max(one.score for one in chain(*ends.values()))
            likely = [one for one in ends.pop(place) if one.score >= best - FAR]
            due = sorted(likely, key=lambda one: -one.score)[:WIDTH]
        if place < len(pattern):
            read = list(range(nodes, nodes + len(due)))
            laws = reading.grow([one.parent for one in due], [one.token for one in due], read).numpy()
            nodes += len(due)
    return due[0].data


def as_pattern(data: bytes, lost: np.ndarray) -> list[int]:
    """The bytes of a text, with the mask where they are lost."""
    return np.where(lost, BYTES.mask, np.frombuffer(data, dtype=np.uint8).astype(np.int64)).tolist()
