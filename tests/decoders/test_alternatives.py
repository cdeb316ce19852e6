"""Joint fills against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.decoders import DecodedText, best_candidates
from conservator.decoders.alternatives import LONGEST
from conservator.documents import LOST
from conservator.experts import Context, Cost, ExpertSpec, Team, copy_visible
from conservator.field import Inferred
from conservator.vocabularies import BYTES

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


def fills_of(tokens, wanted, text=None):
    """The fills of every run of lost tokens, all predicted from what is visible, beside those that ``text`` has."""
    expert = Chain()
    observation = CHANNEL.observe(torch.tensor([tokens]))
    rows = expert.predict(Context(observation.readable, observation.lost), observation.lost.nonzero(as_tuple=True))
    inferred = Inferred.given(torch.ones(1, len(tokens), 1, dtype=torch.float64))
    greedy = np.array([97 if token == LOST else token for token in tokens])
    text = greedy if text is None else np.array(text)
    confidence = np.where(np.array(tokens) == LOST, 0.1, 1.0)
    decoded = DecodedText(text, confidence, rows.half(), np.zeros(len(text)), Cost())
    return expert, best_candidates(Team([expert]), observation, inferred, decoded, wanted)


def test_the_best_fills_are_the_best_of_all():
    expert, found = fills_of([97, LOST, LOST, LOST, 98], 5)
    every = {}
    for fill in product(LETTERS, repeat=3):
        path = (97, *fill)
        every[bytes(fill)] = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    best = sorted(every, key=every.get, reverse=True)[:5]
    assert found[0][0].data == b"aaa"
    assert [one.data for one in found[0][1:]] == [one for one in best if one != b"aaa"][:4]
    assert [one.probability for one in found[0]] == pytest.approx([every[one.data] for one in found[0]], rel=1e-3)


def test_a_gap_that_is_too_long_has_no_fills():
    _, found = fills_of([97, *[LOST] * (LONGEST + 1), 98, LOST, 97], 2)
    assert [len(fills) for fills in found] == [0, 2]


def test_the_fill_that_the_text_has_comes_first():
    expert, found = fills_of([97, LOST, LOST, LOST, 98], 27)
    least = found[0][-1].data
    _, again = fills_of([97, LOST, LOST, LOST, 98], 3, [97, *least, 98])
    assert again[0][0].data == least
    path = (97, *least)
    expected = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    assert again[0][0].probability == pytest.approx(expected, rel=1e-3)
    assert len(again[0]) == len({one.data for one in again[0]}) == 3
