"""Joint candidates against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel
from conservator.decoders import DecodedText, best_candidates
from conservator.decoders.alternatives import CONFIG
from conservator.documents import LOST
from conservator.experts import Context, Cost, ExpertSpec, Team, copy_visible
from conservator.field import Inferred
from conservator.vocabularies import BYTES

LETTERS = (97, 98, 99)
CHANNEL = MaskChannel(256, 0.5)


class Chain:
    """A Markov chain over three letters with left context only, whose joint candidates can be enumerated."""

    spec = ExpertSpec("chain", BYTES, 64)

    def __init__(self):
        self.table = torch.full((256, 256), -40.0)
        rows = torch.randn(256, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        self.table[:, list(LETTERS)] = torch.log_softmax(2 * rows, dim=-1).float()

    def predict(self, context, at):
        tokens, hidden = context.tokens, context.hidden
        out = torch.zeros(*tokens.shape, 256)
        for row, flags, row_log_probs in zip(tokens, hidden, out, strict=True):
            probs = torch.nn.functional.one_hot(row[0], 256).float() if row[0] >= 0 else torch.zeros(256)
            for position in range(1, len(row)):
                probs = (
                    probs @ self.table.exp()
                    if flags[position]
                    else torch.nn.functional.one_hot(row[position].clamp_min(0), 256).float()
                )
                row_log_probs[position] = probs.clamp_min(1e-30).log()
        return copy_visible(out[at], context, at)


def decode_candidates(tokens, count, text=None):
    """The candidates of every run of lost tokens, all predicted from visible tokens; ``text`` is the decoded text."""
    expert = Chain()
    observation = CHANNEL.observe(torch.tensor([tokens]))
    rows = expert.predict(Context(observation.readable, observation.lost), observation.lost.nonzero(as_tuple=True))
    inferred = Inferred.given(torch.ones(1, len(tokens), 1, dtype=torch.float64))
    greedy = np.array([97 if token == LOST else token for token in tokens])
    text = greedy if text is None else np.array(text)
    confidence = np.where(np.array(tokens) == LOST, 0.1, 1.0)
    decoded = DecodedText(text, confidence, rows.half(), np.zeros(len(text)), Cost())
    return expert, best_candidates(Team([expert]), observation, inferred, decoded, count)


def test_the_best_candidates_are_the_best_of_all_texts():
    expert, spans = decode_candidates([97, LOST, LOST, LOST, 98], 5)
    probabilities = {}
    for letters in product(LETTERS, repeat=3):
        path = (97, *letters)
        probabilities[bytes(letters)] = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    best = sorted(probabilities, key=probabilities.get, reverse=True)[:5]
    assert spans[0][0].data == b"aaa"
    assert [candidate.data for candidate in spans[0][1:]] == [data for data in best if data != b"aaa"][:4]
    assert [candidate.probability for candidate in spans[0]] == pytest.approx(
        [probabilities[candidate.data] for candidate in spans[0]], rel=1e-3
    )


def test_a_span_that_is_too_long_has_no_candidates():
    _, spans = decode_candidates([97, *[LOST] * (CONFIG.max_span_positions + 1), 98, LOST, 97], 2)
    assert [len(candidates) for candidates in spans] == [0, 2]


def test_the_decoded_candidate_comes_first():
    expert, spans = decode_candidates([97, LOST, LOST, LOST, 98], 27)
    least_likely = spans[0][-1].data
    _, with_text = decode_candidates([97, LOST, LOST, LOST, 98], 3, [97, *least_likely, 98])
    assert with_text[0][0].data == least_likely
    path = (97, *least_likely)
    expected = float(sum(expert.table[a, b] for a, b in pairwise(path)).exp())
    assert with_text[0][0].probability == pytest.approx(expected, rel=1e-3)
    assert len(with_text[0]) == len({candidate.data for candidate in with_text[0]}) == 3
