"""The decoder of documents: groups of lost tokens, how sure it is, one text whatever is asked for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import restore
from conservator.channels import MaskChannel
from conservator.decoders import decode_text
from conservator.decoders.text import NEARBY, SURE, chance_of_neighbours, group_of, rounds_for, surer_half
from conservator.documents import LOST
from conservator.experts import ExpertSpec, Meter, OutOfTimeError, Team, copy_visible
from conservator.field import Inferred
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert, TextExpert

places = st.sets(st.integers(0, 200), min_size=1).map(sorted).map(np.array)


@given(places, st.integers(0, 99))
def test_the_surer_half_of_each_group_is_filled_in(found, seed):
    certain = np.random.default_rng(seed).random(len(found))
    group, filled = group_of(found), surer_half(found, certain)
    for one in range(group.max() + 1):
        inside = found[group == one]
        assert (np.diff(inside) <= NEARBY).all()
        assert one == 0 or inside[0] - found[group == one - 1][-1] > NEARBY
        half = filled[group == one] & (certain[group == one] < SURE)
        assert filled[group == one].sum() >= (len(inside) + 1) // 2
        assert half.sum() <= (len(inside) + 1) // 2
        own, left = certain[group == one], ~filled[group == one]
        if left.any():
            assert own[~left].min() >= own[left].max()


@given(places, st.integers(0, 99))
def test_as_many_rounds_as_are_said_are_enough(found, seed):
    rng, left, rounds = np.random.default_rng(seed), found, 0
    while len(left):
        left, rounds = left[~surer_half(left, rng.random(len(left)))], rounds + 1
    assert rounds <= rounds_for(found)


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=40))
def test_the_chance_of_neighbours_is_their_product(confidence):
    expected = [np.prod(confidence[max(0, place - NEARBY) : place + NEARBY + 1]) for place in range(len(confidence))]
    np.testing.assert_allclose(chance_of_neighbours(np.array(confidence)), expected, rtol=1e-9)


class Copying:
    """Says that a token is the one before it, surely if that is visible; else it knows only that it is a or b."""

    spec = ExpertSpec("copying", BYTES, 64)

    def predict(self, context, at):
        law = torch.full((len(at[0]), 256), -30.0)
        for number, (row, place) in enumerate(zip(*(one.tolist() for one in at), strict=True)):
            law[number, [97, 98]] = torch.tensor([0.45, 0.55]).log()
            if place and not context.hidden[row, place - 1]:
                law[number, context.tokens[row, place - 1]] = 0.0
        return copy_visible(torch.log_softmax(law, dim=-1), context, at)


def test_a_run_is_chosen_one_after_the_other_and_its_doubt_stays():
    observation = MaskChannel(256, 0.5).observe(torch.tensor([[97, LOST, LOST, 32]]))
    inferred = Inferred.given(torch.ones(1, 4, 1, dtype=torch.float64))
    found = decode_text(Team([Copying()]), observation, inferred, torch.Generator())
    # Alone, the second lost token is more likely b; given the first, which is surer, it is a.
    assert found.tokens.tolist() == [97, 97, 97, 32]
    first = 1 / (1 + 0.55)
    np.testing.assert_allclose(found.confidence, [1, first, first * first + (1 - first) * 0.45, 1], rtol=1e-3)
    assert found.cost.evaluations == 2


def test_before_anything_is_predicted_there_is_nothing_to_keep():
    observation = MaskChannel(256, 0.5).observe(torch.tensor([[97, LOST, LOST, 32]]))
    inferred = Inferred.given(torch.full((1, 4, 2), 0.5, dtype=torch.float64))
    now = [0]
    first, second = Copying(), Copying()
    first.predict = lambda context, at: (now.append(1), Copying.predict(first, context, at))[1]
    team = Team([first, second], Meter(seconds=1, clock=lambda: now[-1]))  # the second is not asked any more
    with pytest.raises(OutOfTimeError):
        decode_text(team, observation, inferred, torch.Generator())


@pytest.mark.parametrize("gap", [None, "[...]"])
@settings(max_examples=25)
@given(st.lists(st.sampled_from(["word ", "é", "\ufffd", "\ufffd" * 5, "x = 1\n", "[...]"]), min_size=1, max_size=8))
def test_one_text_whatever_is_asked_for(gap, parts):
    document, team = "".join(parts), [FakeExpert(0, 40), FakeExpert(1, 40)]
    plain = restore(document, team, gap=gap, max_gap=4)
    for count in (1, 3):
        other = restore(document, team, gap=gap, max_gap=4, alternatives=count)
        assert other.data == plain.data
        np.testing.assert_array_equal(other.confidence, plain.confidence)
        np.testing.assert_array_equal(other.field, plain.field)
        for span, fills in zip(other.spans, other.alternatives, strict=True):
            assert fills[0].data == bytes(plain.tokens[span.start : span.stop].tolist())


def test_a_burst_comes_back_from_memory():
    text = "The station at the lake reports every hour.\n" * 3 + "A line of its own.\n"
    damaged = text[:60] + "\ufffd" * 12 + text[72:]
    found = restore(damaged, [TextExpert("nothing of this is in the document", name="other")])
    assert found.text == text
    hole = text[:60] + "[...]" + text[72:]
    assert restore(hole, [TextExpert("nothing of this", name="other")], gap="[...]").text == text
