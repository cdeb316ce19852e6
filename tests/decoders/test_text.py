"""The decoder of documents: groups of lost tokens, confidence, and a text that does not depend on the options."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator import restore
from conservator.channels import MaskChannel
from conservator.decoders import decode_text
from conservator.decoders.text import (
    CONFIG,
    NEIGHBOUR_DISTANCE,
    group_of,
    max_iterations,
    more_confident_half,
    prob_neighbours_correct,
)
from conservator.documents import LOST
from conservator.experts import ExpertSpec, Meter, OutOfTimeError, Team, copy_visible
from conservator.field import Inferred
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert, TextExpert

position_sets = st.sets(st.integers(0, 200), min_size=1).map(sorted).map(np.array)


@given(position_sets, st.integers(0, 99))
def test_the_more_confident_half_of_each_group_is_filled_in(positions, seed):
    probability = np.random.default_rng(seed).random(len(positions))
    group, filled = group_of(positions), more_confident_half(positions, probability)
    for number in range(group.max() + 1):
        inside = positions[group == number]
        assert (np.diff(inside) <= NEIGHBOUR_DISTANCE).all()
        assert number == 0 or inside[0] - positions[group == number - 1][-1] > NEIGHBOUR_DISTANCE
        half = filled[group == number] & (probability[group == number] < CONFIG.min_confidence)
        assert filled[group == number].sum() >= (len(inside) + 1) // 2
        assert half.sum() <= (len(inside) + 1) // 2
        inside_probability, remaining = probability[group == number], ~filled[group == number]
        if remaining.any():
            assert inside_probability[~remaining].min() >= inside_probability[remaining].max()


@given(position_sets, st.integers(0, 99))
def test_the_stated_number_of_iterations_is_sufficient(positions, seed):
    rng, remaining, iterations = np.random.default_rng(seed), positions, 0
    while len(remaining):
        remaining, iterations = remaining[~more_confident_half(remaining, rng.random(len(remaining)))], iterations + 1
    assert iterations <= max_iterations(positions)


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=40))
def test_the_probability_of_correct_neighbours_is_their_product(confidence):
    expected = [
        np.prod(confidence[max(0, position - NEIGHBOUR_DISTANCE) : position + NEIGHBOUR_DISTANCE + 1])
        for position in range(len(confidence))
    ]
    np.testing.assert_allclose(prob_neighbours_correct(np.array(confidence)), expected, rtol=1e-9)


class Copying:
    """Predicts the token before, with high confidence if that is visible; otherwise it predicts a or b."""

    spec = ExpertSpec("copying", BYTES, 64)

    def predict(self, context, at):
        log_probs = torch.full((len(at[0]), 256), -30.0)
        for number, (row, position) in enumerate(zip(*(indices.tolist() for indices in at), strict=True)):
            log_probs[number, [97, 98]] = torch.tensor([0.45, 0.55]).log()
            if position and not context.hidden[row, position - 1]:
                log_probs[number, context.tokens[row, position - 1]] = 0.0
        return copy_visible(torch.log_softmax(log_probs, dim=-1), context, at)


def test_a_run_is_decoded_in_turn_and_its_uncertainty_accumulates():
    observation = MaskChannel(256, 0.5).observe(torch.tensor([[97, LOST, LOST, 32]]))
    inferred = Inferred.given(torch.ones(1, 4, 1, dtype=torch.float64))
    decoded = decode_text(Team([Copying()]), observation, inferred)
    # By itself, the second lost token is more likely b; given the first, which is more confident, it is a.
    assert decoded.tokens.tolist() == [97, 97, 97, 32]
    first = 1 / (1 + 0.55)
    np.testing.assert_allclose(decoded.confidence, [1, first, first * first + (1 - first) * 0.45, 1], rtol=1e-3)
    assert decoded.cost.evaluations == 2


def test_out_of_time_before_the_first_prediction_raises():
    observation = MaskChannel(256, 0.5).observe(torch.tensor([[97, LOST, LOST, 32]]))
    inferred = Inferred.given(torch.full((1, 4, 2), 0.5, dtype=torch.float64))
    now = [0]
    first, second = Copying(), Copying()
    first.predict = lambda context, at: (now.append(1), Copying.predict(first, context, at))[1]
    team = Team([first, second], Meter(seconds=1, clock=lambda: now[-1]))  # the second expert is not evaluated
    with pytest.raises(OutOfTimeError):
        decode_text(team, observation, inferred)


@pytest.mark.parametrize("gap", [None, "[...]"])
@settings(max_examples=25)
@given(st.lists(st.sampled_from(["word ", "é", "\ufffd", "\ufffd" * 5, "x = 1\n", "[...]"]), min_size=1, max_size=8))
def test_the_text_does_not_depend_on_the_number_of_alternatives(gap, parts):
    document, team = "".join(parts), [FakeExpert(0, 40), FakeExpert(1, 40)]
    plain = restore(document, team, gap=gap, max_gap=4)
    for count in (1, 3):
        other = restore(document, team, gap=gap, max_gap=4, alternatives=count)
        assert other.data == plain.data
        np.testing.assert_array_equal(other.confidence, plain.confidence)
        np.testing.assert_array_equal(other.field, plain.field)
        for edit, (start, stop) in zip(other.edits, other.ranges, strict=True):
            assert edit.alternatives[0].data == bytes(plain.tokens[start:stop].tolist())


def test_a_long_lost_span_is_restored_from_memory():
    text = "The station at the lake reports every hour.\n" * 3 + "A line of its own.\n"
    damaged = text[:60] + "\ufffd" * 12 + text[72:]
    restoration = restore(damaged, [TextExpert("nothing of this is in the document", name="other")])
    assert restoration.text == text
    hole = text[:60] + "[...]" + text[72:]
    assert restore(hole, [TextExpert("nothing of this", name="other")], gap="[...]").text == text
