"""Joint fills against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.decoders import DecodedText, Fill, best_fills, take_best
from conservator.decoders.beam import LONGEST
from conservator.documents import LOST
from conservator.errors import ConservatorError
from conservator.experts import Context, Cost, ExpertSpec, Team, copy_visible
from conservator.field import Inferred
from conservator.vocabularies import BYTES
from fakes import FakeExpert

LETTERS = (97, 98, 99)
CHANNEL = MaskChannel(256, 0.5)


class Chain:
    """A Markov chain over three letters that reads to the left alone: its joint fills can be enumerated."""

    spec = ExpertSpec("chain", BYTES, 64)

    def __init__(self):
        self.table = torch.full((256, 256), -40.0)
        rows = torch.randn(256, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        self.table[:, list(LETTERS)] = torch.log_softmax(2 * rows, dim=-1).float()

    def predict(self, context, at):
        tokens, hidden = context.tokens, context.hidden
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
        return copy_visible(out[at], context, at)


def fills_of(tokens, wanted):
    """The fills of every run of lost tokens, all predicted from what is visible."""
    expert = Chain()
    observation = CHANNEL.observe(torch.tensor([tokens]))
    rows = expert.predict(Context(observation.readable, observation.lost), observation.lost.nonzero(as_tuple=True))
    inferred = Inferred.given(torch.ones(1, len(tokens), 1, dtype=torch.float64))
    text = np.array(tokens)
    decoded = DecodedText(text, np.ones(len(text)), text, rows, np.zeros(len(text)), Cost())
    return expert, best_fills(Team([expert]), observation, inferred, decoded, wanted)


def test_the_best_fills_are_the_best_of_all():
    expert, found = fills_of([97, LOST, LOST, LOST, 98], 5)
    every = {}
    for fill in product(LETTERS, repeat=3):
        path = (97, *fill)
        every[bytes(fill)] = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    best = sorted(every, key=every.get, reverse=True)[:5]
    assert [one.data for one in found[0]] == best
    assert [one.probability for one in found[0]] == pytest.approx([every[one] for one in best], rel=1e-3)


def test_a_gap_that_is_too_long_has_no_fills():
    _, found = fills_of([97, *[LOST] * (LONGEST + 1), 98, LOST, 97], 2)
    assert [len(fills) for fills in found] == [0, 2]


def test_a_fill_that_another_choice_contradicts_is_not_taken():
    # The first gap was filled to begin a character of three bytes, whose last the second gap has.
    tokens = np.array([0xE2, 0x82, 0xAC])
    decoded = DecodedText(tokens, np.ones(3), tokens, torch.zeros(2, 256).half(), np.zeros(3), Cost())
    observation, team = CHANNEL.observe(torch.tensor([[LOST, 0x82, LOST]])), Team([FakeExpert()])
    taken = take_best(decoded, observation, [(Fill(b"\xc2", 0.9),), (Fill(b"\xad", 0.9),)], team)
    assert taken.tokens.tolist() == [0xE2, 0x82, 0xAD]
    without = DecodedText(tokens, decoded.confidence, tokens, None, np.zeros(3), Cost())
    with pytest.raises(ConservatorError, match="predictions were kept"):
        take_best(without, observation, [], team)
    with pytest.raises(ConservatorError, match="predictions were kept"):
        best_fills(team, observation, Inferred.given(torch.ones(1, 3, 1)), without, 2)
