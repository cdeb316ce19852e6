"""Stretches in doubt: with room enough their texts have the exact posterior, by characters and by language models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_edit_beam import CHANNEL, MIXTURE, WIDE, every_path, score

from conservator.decoders.edits import ArcTable, find_stretches, judging, stretches
from conservator.decoders.edits.scoring import Spot, judge
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.reference import MarkovExpert


@pytest.fixture(scope="class")
def unlimited():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MOST": 10**6, "CLOSE": np.inf, "FAR": np.inf, "SURE": 2.0}.items():
            patch.setattr(stretches, name, value)
        yield


@pytest.mark.usefixtures("unlimited")
@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="abc", min_size=1, max_size=3))
def test_texts_have_the_posterior_of_all_paths_that_write_them(line):
    steps = ArcTable(CHANNEL).of(line)
    exact = {}
    for path in every_path(steps):
        text, one = score(steps, path)
        exact[text] = np.logaddexp(exact.get(text, -np.inf), one)
    total = np.logaddexp.reduce(list(exact.values()))
    (found,) = find_stretches(line, WIDE.search(MIXTURE, steps, "\n"), steps)
    assert (found.start, found.stop) == (0, len(line))
    scores = {one.text: one.score for one in found.alternatives}
    assert scores == pytest.approx({text: one - total for text, one in exact.items()}, abs=1e-9)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    for one in found.alternatives:
        assert "".join(chr(c) for s in one.steps for c in steps.texts[s, : steps.sizes[s]]) == one.text
        assert sum(steps.widths[list(one.steps)]) == len(line)


def test_stretches_end_at_spaces_that_are_sure():
    line = "ab cab ab"
    steps = ArcTable(CHANNEL.scale_error_rate(0.1)).of(line)
    found = find_stretches(line, WIDE.search(MIXTURE, steps, "\n"), steps)
    assert found
    assert all(one.start == 0 or line[one.start] == " " for one in found)
    assert all(one.stop == len(line) or line[one.stop] == " " for one in found)
    assert all(line[one.start : one.stop] in [other.text for other in one.alternatives] for one in found)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(0, 1))
def test_language_models_judge_texts_with_the_words_after_them(seed, share):
    generator = torch.Generator().manual_seed(seed)
    pieces = [bytes([one]) for one in b"ab "]
    experts = [MarkovExpert.random(pieces, 1.0, generator) for _ in range(2)]
    text, spots = b"ab ba ab aab ba", [Spot(2, 5, (b" ba", b" a", b" bab")), Spot(8, 12, (b" aab", b" ab"))]
    weights = np.tile([share, 1 - share], (len(text), 1))
    found = judge(experts, weights, text, spots, Meter())
    for spot, scores in zip(spots, found, strict=True):
        exact = []
        for one in spot.texts:
            whole = text[: spot.start] + one + text[spot.stop :]
            exact.append(share * log_prob(experts[0], whole) + (1 - share) * log_prob(experts[1], whole))
        assert scores - scores[0] == pytest.approx(np.array(exact) - exact[0], abs=1e-4)


def log_prob(expert, text):
    tokens = [b"ab ".index(one) for one in text]
    rows = [0, *(token + 1 for token in tokens)]
    return sum(float(expert.log_probs[row, token]) for row, token in zip(rows, tokens, strict=False))


def test_a_model_that_cannot_read_has_no_say():
    class Deaf(MarkovExpert):
        def read(self):
            raise ConservatorError("a control character")

    expert = Deaf([b"a", b"b"], torch.zeros(2), torch.zeros(2, 2))
    (found,) = judge([expert], np.ones((4, 1)), b"abba", [Spot(2, 3, (b"b", b"a"))], Meter())
    assert found.tolist() == [0, 0]


def test_long_texts_are_read_in_blocks():
    text = "ä b ".encode() * 3000
    spots = [Spot(place + 3, place + 4, (b"b", b"a")) for place in range(0, len(text), 500)]
    blocks = list(judging.find_blocks(text, spots, None))
    assert [one for _, _, part in blocks for one in part] == spots
    assert len(blocks) > 2
    for begin, end, part in blocks:
        text[begin:end].decode()
        assert begin <= part[0].start
        assert part[-1].stop <= end
    assert all(end - begin <= 100 for begin, end, _ in judging.find_blocks(text, spots, 100))
