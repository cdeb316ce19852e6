"""Joint fills against enumeration, and lengths against what UTF-8 allows."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import ConservatorError
from conservator.decoders.beam import LONGEST, Fill, best_fills, take_best
from conservator.decoders.lengths import possible_lengths
from conservator.decoders.text import DecodedText
from conservator.documents.utf8 import LOST, find_invalid
from conservator.experts.expert import ExpertSpec, copy_visible
from conservator.field.composition import Composition
from conservator.field.cost import Cost

LETTERS = (97, 98, 99)


class Chain:
    """A Markov chain over three letters that reads to the left alone: its joint fills can be enumerated."""

    spec = ExpertSpec("chain", 256, 64)

    def __init__(self):
        self.table = torch.full((256, 256), -40.0)
        rows = torch.randn(256, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        self.table[:, list(LETTERS)] = torch.log_softmax(2 * rows, dim=-1).float()

    def log_probs(self, tokens, hidden, kappa=0.0):
        out = torch.zeros(*tokens.shape, 256)
        for row, flags, said in zip(tokens, hidden, out, strict=True):
            law = torch.nn.functional.one_hot(row[0], 256).float() if row[0] >= 0 else torch.zeros(256)
            for place in range(1, len(row)):
                law = (
                    law @ self.table.exp()
                    if flags[place]
                    else torch.nn.functional.one_hot(row[place].clamp_min(0), 256).float()
                )
                said[place] = law.clamp_min(1e-30).log()
        return copy_visible(out, tokens, hidden)


def fills_of(tokens, spans, wanted):
    expert, tokens = Chain(), np.array(tokens)
    lost = torch.from_numpy(tokens == LOST)
    rows = expert.log_probs(torch.from_numpy(np.where(tokens == LOST, 0, tokens))[None], lost[None])[0, lost]
    composition = Composition.of_field(torch.ones(1, len(tokens), 1))
    return expert, best_fills([expert], tokens, tokens, spans, composition, rows, wanted, Cost())


def test_the_best_fills_are_the_best_of_all():
    expert, found = fills_of([97, LOST, LOST, LOST, 98], [(1, 4)], 5)
    every = {}
    for fill in product(LETTERS, repeat=3):
        path = (97, *fill)
        every[bytes(fill)] = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    best = sorted(every, key=every.get, reverse=True)[:5]
    assert [one.data for one in found[0]] == best
    assert [one.probability for one in found[0]] == pytest.approx([every[one] for one in best], rel=1e-3)


def test_a_gap_that_is_too_long_has_no_fills():
    tokens = [97, *[LOST] * (LONGEST + 1), 98, LOST, 97]
    _, found = fills_of(tokens, [(1, LONGEST + 2), (LONGEST + 3, LONGEST + 4)], 2)
    assert [len(fills) for fills in found] == [0, 2]


def test_a_fill_that_another_choice_contradicts_is_not_taken():
    # The first gap was filled to begin a character of three bytes, whose last the second gap has.
    tokens = np.array([0xE2, 0x82, 0xAC])
    decoded = DecodedText(tokens, np.ones(3), tokens, torch.zeros(2, 256).half(), Cost())
    lost = np.array([True, False, True])
    taken = take_best(decoded, lost, [(0, 1), (2, 3)], [(Fill(b"\xc2", 0.9),), (Fill(b"\xad", 0.9),)])
    assert taken.tokens.tolist() == [0xE2, 0x82, 0xAD]
    with pytest.raises(ConservatorError, match="without keeping"):
        take_best(DecodedText(tokens, decoded.confidence, tokens, None, Cost()), lost, [], [])


@given(st.text(max_size=4), st.text(max_size=4), st.integers(0, 3), st.integers(0, 3))
def test_the_lengths_of_a_gap_are_those_that_utf8_allows(left, right, cut, skip):
    left, right = left.encode(), right.encode()
    tokens = np.array([*left[: len(left) - cut], *right[skip:]], dtype=np.int64)
    place = max(len(left) - cut, 0)
    found = possible_lengths(tokens, place, 6)
    for length in range(1, 7):
        widened = np.insert(tokens, np.full(length, place), LOST)
        assert (length in found) == (not find_invalid(widened).any())
