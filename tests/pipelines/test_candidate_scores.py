"""Scores of listed candidates by masked experts, against the chain rule."""

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.decoders.rescoring import Slot
from conservator.experts import Team
from conservator.field import Inferred
from conservator.pipelines.candidate_scores import narrow, score_candidates
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert

TEXT = b"one two three four five"


def score(expert, *slots):
    team = Team([expert])
    observation = MaskChannel(BYTES.size, 0.5).observe(torch.tensor([list(TEXT)]))
    inferred = Inferred.given(torch.ones(1, len(TEXT), 1, dtype=torch.float64))
    return score_candidates(team, observation, inferred, TEXT, slots)


def test_candidates_of_different_lengths_follow_the_chain_rule():
    expert = FakeExpert(3)  # predicts a byte from the last visible byte before it
    candidates = [b"two", b"tooo", b"to"]
    (scores,) = score(expert, Slot(4, 7, dict.fromkeys(candidates, 0.0)))
    for candidate in candidates:  # the first and the last byte of all candidates are the same
        inner = candidate[1:-1]
        pairs = zip(candidate, inner, strict=False)
        exact = sum(float(expert.table[before, byte]) for before, byte in pairs)
        assert scores[candidate] == pytest.approx(exact, abs=1e-4)


def test_shared_bytes_are_visible():
    assert narrow(Slot(4, 7, {b"two": 0.0, b"tao": 1.0})) == Slot(5, 6, {b"w": 0.0, b"a": 1.0})
    assert narrow(Slot(4, 7, {b"two": 0.0})).candidates == {b"": 0.0}


def test_candidates_that_exceed_the_context_are_not_scored():
    long = Slot(4, 7, {b"two": 0.0, b"x" * 100: 0.0})
    short = Slot(8, 13, {b"three": 0.0, b"there": 0.0})
    first, second = score(FakeExpert(1, context=40), long, short)
    assert set(first.values()) == {0.0}
    assert all(np.isfinite(value) and value < 0 for value in second.values())
