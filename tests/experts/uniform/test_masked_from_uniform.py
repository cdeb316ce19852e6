"""Uniform-source experts in a team: noise at hidden positions, and leave-one-out predictions at visible ones."""

import pytest
import torch

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, Team
from conservator.experts.uniform import MAX_KAPPA, LeaveOneOut, MaskedFromUniform, cavity, filled, source_tokens
from conservator.reference import EnumeratedExpert
from support.uniform_experts import LENGTH, SEQUENCES, SIZE, random_expert, uniform_table

EVERYWHERE = torch.zeros(LENGTH, dtype=torch.long), torch.arange(LENGTH)


class CountingExpert:
    """Counts the sequences that an expert reads, and stores the last context."""

    def __init__(self, expert):
        self.expert, self.spec, self.count, self.last = expert, expert.spec, 0, None

    def predict(self, context, at):
        self.count += len(context.tokens)
        self.last = context
        return self.expert.predict(context, at)


def context_of(which, *hidden, start=None):
    tokens = SEQUENCES[which : which + 1]
    mask = torch.tensor([[position in hidden for position in range(LENGTH)]])
    return Context(tokens, mask, start=None if start is None else torch.tensor([start]))


def test_a_hidden_token_has_its_cavity_distribution_in_the_filled_sequence():
    expert, context = random_expert(0), context_of(14, 1, 2)
    state = filled(context, SIZE, seed=5)
    rows = uniform_table(expert, state, 1 / 3)[0]
    expected = cavity(rows, state[0], torch.full((LENGTH,), 1 / 3))
    log_probs = MaskedFromUniform(expert, seed=5).predict(context, EVERYWHERE)
    torch.testing.assert_close(log_probs[1:], expected[1:].float())
    assert log_probs[0].argmax() == context.tokens[0, 0]
    torch.testing.assert_close(LeaveOneOut(expert, seed=5).predict(context, EVERYWHERE), expected)


def test_the_mean_prediction_over_seeds_is_the_marginal_distribution():
    """At kappa = 0 the noise at other positions has no effect on the average."""
    expert, context = random_expert(2, 1.5), context_of(14, 0, 1, 2)
    probs = torch.stack(
        [MaskedFromUniform(expert, seed).predict(context, EVERYWHERE).exp() for seed in range(400)]
    ).mean(0)
    marginals = torch.stack(
        [expert.log_joint.exp().sum([0, 1, 2][:position] + [0, 1, 2][position + 1 :]) for position in range(3)]
    )
    torch.testing.assert_close(probs, marginals.float(), rtol=0, atol=1e-5)


def test_an_expert_is_not_evaluated_for_visible_positions():
    counted = CountingExpert(random_expert(0))
    both = Context(SEQUENCES[:2], torch.tensor([[False] * 3, [True, False, False]]))
    MaskedFromUniform(counted).predict(context_of(4), EVERYWHERE)
    assert counted.count == 0
    MaskedFromUniform(counted).predict(both, both.everywhere())
    assert counted.count == 1
    assert counted.last.time.tolist() == pytest.approx([2 / 3])
    assert not counted.last.hidden.any()


def test_noise_depends_on_the_position_in_the_document():
    positions = torch.arange(1000)
    noise = source_tokens(positions, 50257, seed=1)
    assert torch.equal(noise[100:], source_tokens(positions[:-100] + 100, 50257, seed=1))
    for other in (source_tokens(positions, 50257, seed=2), source_tokens(positions, 50257, seed=3)):
        assert (noise == other).sum() < 3
    whole = filled(Context(torch.zeros(1, 6, dtype=torch.long), torch.ones(1, 6, dtype=torch.bool)), 50, 0)
    part = filled(context_of(0, 0, 1, 2, start=3), 50, 0)
    assert torch.equal(whole[:, 3:], part)


def test_noise_is_uniform():
    noise = source_tokens(torch.arange(60_000), 6, seed=0)
    counts = torch.bincount(noise, minlength=6).double()
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # chi squared with 5 degrees of freedom, p = 0.001


def test_a_team_accepts_a_uniform_source_only_wrapped():
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([[0, SIZE, 2]]))
    with pytest.raises(ConservatorError, match="uniform source"):
        Team([random_expert(0)])
    team = Team([MaskedFromUniform(random_expert(0)), MaskedFromUniform(random_expert(1))])
    lost = observation.lost[:, None]
    (predictions,) = team.read(observation.readable, lost, lost)
    assert predictions.log_probs.shape == (2, 1, SIZE)


def test_leave_one_out_does_not_depend_on_the_token_at_the_position():
    expert = LeaveOneOut(random_expert(3))
    at = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    rows = [expert.predict(context_of(9 * token + 5, 2), at) for token in range(SIZE)]
    torch.testing.assert_close(rows[0], rows[1])
    torch.testing.assert_close(rows[0], rows[2])


def test_a_text_without_hidden_tokens_is_read_at_the_largest_time():
    log_probs = LeaveOneOut(random_expert(3)).predict(context_of(5), EVERYWHERE)
    state = SEQUENCES[5:6]
    expected = cavity(uniform_table(random_expert(3), state, MAX_KAPPA)[0], state[0], torch.full((LENGTH,), MAX_KAPPA))
    torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-6)


def test_invalid_arguments_are_rejected():
    with pytest.raises(ConservatorError, match="mask source"):
        MaskedFromUniform(EnumeratedExpert(torch.zeros(2, 2)))
