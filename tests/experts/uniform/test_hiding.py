"""A uniform-source expert in a team: what it reads in gaps, and that a visible token is not its own evidence."""

import pytest
import torch

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, Team
from conservator.experts.uniform import LATEST, LeaveOneOut, MaskedFromUniform, cavity, filled, source_tokens
from conservator.reference import EnumeratedExpert
from support.uniform_experts import LENGTH, SEQUENCES, SIZE, random_expert, uniform_table

EVERYWHERE = torch.zeros(LENGTH, dtype=torch.long), torch.arange(LENGTH)


class Counted:
    """Counts the sequences that an expert reads, and keeps the last."""

    def __init__(self, expert):
        self.expert, self.spec, self.count, self.read = expert, expert.spec, 0, None

    def predict(self, context, at):
        self.count += len(context.tokens)
        self.read = context
        return self.expert.predict(context, at)


def context_of(which, *hidden, start=None):
    tokens = SEQUENCES[which : which + 1]
    gone = torch.tensor([[place in hidden for place in range(LENGTH)]])
    return Context(tokens, gone, start=None if start is None else torch.tensor([start]))


def test_a_hidden_token_has_the_law_of_its_cavity_in_the_filled_sequence():
    expert, context = random_expert(0), context_of(14, 1, 2)
    state = filled(context, SIZE, seed=5)
    rows = uniform_table(expert, state, 1 / 3)[0]
    expected = cavity(rows, state[0], torch.full((LENGTH,), 1 / 3))
    found = MaskedFromUniform(expert, seed=5).predict(context, EVERYWHERE)
    torch.testing.assert_close(found[1:], expected[1:].float())
    assert found[0].argmax() == context.tokens[0, 0]
    torch.testing.assert_close(LeaveOneOut(expert, seed=5).predict(context, EVERYWHERE), expected)


def test_several_sources_average_probabilities():
    expert, context = random_expert(1), context_of(14, 0, 2)
    rows = []
    for draw in range(3):
        state = filled(context, SIZE, 7, draw)
        rows.append(cavity(uniform_table(expert, state, 1 / 3)[0], state[0], torch.full((LENGTH,), 1 / 3)).exp())
    found = LeaveOneOut(expert, seed=7, draws=3).predict(context, EVERYWHERE).exp()
    torch.testing.assert_close(found, torch.stack(rows).mean(0))


def test_with_many_sources_the_law_forgets_them():
    """What noise of the source says of other positions averages out to what nothing says, as far as few tokens go."""
    expert, context = random_expert(2, 1.5), context_of(14, 0, 1, 2)
    found = MaskedFromUniform(expert, draws=400).predict(context, EVERYWHERE).exp()
    marginals = torch.stack(
        [expert.log_joint.exp().sum([0, 1, 2][:place] + [0, 1, 2][place + 1 :]) for place in range(3)]
    )
    torch.testing.assert_close(found, marginals.float(), rtol=0, atol=1e-5)  # kappa is 0: nothing is read


def test_an_expert_is_not_asked_about_what_is_visible():
    counted = Counted(random_expert(0))
    both = Context(SEQUENCES[:2], torch.tensor([[False] * 3, [True, False, False]]))
    MaskedFromUniform(counted).predict(context_of(4), EVERYWHERE)
    assert counted.count == 0
    MaskedFromUniform(counted).predict(both, both.everywhere())
    assert counted.count == 1
    assert counted.read.time.tolist() == pytest.approx([2 / 3])
    assert not counted.read.hidden.any()


def test_noise_belongs_to_the_place_in_the_document():
    places = torch.arange(1000)
    noise = source_tokens(places, 50257, seed=1)
    assert torch.equal(noise[100:], source_tokens(places[:-100] + 100, 50257, seed=1))
    for other in (source_tokens(places, 50257, seed=2), source_tokens(places, 50257, seed=1, draw=1)):
        assert (noise == other).sum() < 3
    whole = filled(Context(torch.zeros(1, 6, dtype=torch.long), torch.ones(1, 6, dtype=torch.bool)), 50, 0)
    part = filled(context_of(0, 0, 1, 2, start=3), 50, 0)
    assert torch.equal(whole[:, 3:], part)


def test_noise_is_uniform():
    noise = source_tokens(torch.arange(60_000), 6, seed=0)
    counts = torch.bincount(noise, minlength=6).double()
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # chi squared with 5 degrees of freedom, p = 0.001


def test_a_team_takes_it_only_when_wrapped():
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([[0, SIZE, 2]]))
    with pytest.raises(ConservatorError, match="uniform source"):
        Team([random_expert(0)])
    team = Team([MaskedFromUniform(random_expert(0)), MaskedFromUniform(random_expert(1))])
    lost = observation.lost[:, None]
    (found,) = team.read(observation.readable, lost, lost)
    assert found.log_probs.shape == (2, 1, SIZE)


def test_leave_one_out_does_not_depend_on_the_token_that_it_leaves_out():
    expert = LeaveOneOut(random_expert(3))
    at = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    rows = [expert.predict(context_of(9 * token + 5, 2), at) for token in range(SIZE)]
    torch.testing.assert_close(rows[0], rows[1])
    torch.testing.assert_close(rows[0], rows[2])


def test_a_text_without_gaps_is_read_at_a_time_before_its_end():
    found = LeaveOneOut(random_expert(3)).predict(context_of(5), EVERYWHERE)
    state = SEQUENCES[5:6]
    expected = cavity(uniform_table(random_expert(3), state, LATEST)[0], state[0], torch.full((LENGTH,), LATEST))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(ConservatorError, match="mask source"):
        MaskedFromUniform(EnumeratedExpert(torch.zeros(2, 2)))
    with pytest.raises(ConservatorError, match="at least one"):
        MaskedFromUniform(random_expert(0), draws=0)
