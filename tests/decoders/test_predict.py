"""Decoders against the conditionals of experts that are known exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.decoders import Reading, predict
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import Bayes, Composition, simplex_grid
from conservator.reference import BigramExpert, decode_iteratively, decode_one_step, decode_with_channel
from support.tables import table_of

SIZE = 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2):
    return [BigramExpert.random(SIZE, 2.0, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(rows, length, seed=0, rate=0.5):
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, (rows, length), generator=seeded(seed)), seeded(seed))


def some_field(rows, length, experts, seed=0):
    return torch.rand(rows, length, experts, generator=seeded(seed), dtype=torch.float64).softmax(-1)


def pools(experts, observation, field):
    """The composed log-probabilities at every position, one sequence at a time."""
    tokens = observation.readable
    said = torch.stack([table_of(expert, tokens, observation.lost) for expert in experts], dim=-1)
    return torch.log_softmax((said * field[:, :, None]).sum(-1), dim=-1)


@given(seed=st.integers(0, 30), length=st.integers(1, 8))
def test_one_step_takes_the_mode_of_the_pool_and_copies_the_rest(seed, length):
    experts, observation = bigrams(), masked(3, length, seed)
    field = some_field(3, length, 2, seed)
    found = decode_one_step(Team(experts), observation, Composition.of_field(field))
    expected = pools(experts, observation, field)
    hidden = observation.lost
    assert torch.equal(found.tokens[~hidden], observation.tokens[~hidden])
    assert (found.confidence[~hidden] == 1).all()
    assert torch.equal(found.tokens[hidden], expected.argmax(-1)[hidden])
    torch.testing.assert_close(found.confidence[hidden], expected.max(-1).values.exp()[hidden], rtol=1e-5, atol=1e-6)
    assert found.cost.evaluations == 2 * int(hidden.any(-1).sum())


def test_the_predictive_is_the_average_of_pools():
    experts, observation = bigrams(3), masked(2, 6)
    weights = torch.tensor(simplex_grid(3, 2))
    states = torch.rand(2, 6, 6, generator=seeded(), dtype=torch.float64).softmax(-1)
    composition = Composition.of_states(states, weights)
    expected = sum(
        states[:, :, [s]] * pools(experts, observation, weights[s].expand(2, 6, 3)).exp() for s in range(6)
    ).log()
    tokens = observation.readable
    count = 0
    for found, log_probs in predict(Team(experts), tokens, observation.lost, composition):
        torch.testing.assert_close(log_probs.double(), expected[found.sequence, found.position], rtol=1e-4, atol=1e-5)
        count += len(log_probs)
    assert count == int(observation.lost.sum())
    torch.testing.assert_close(composition.mean().sum(-1), torch.ones(2, 6, dtype=torch.float64))


@given(seed=st.integers(0, 20))
def test_many_steps_fill_the_surest_first_and_read_it(seed):
    """One token a step: the same as doing it by hand."""
    experts, observation = bigrams(), masked(1, 5, seed)
    field = some_field(1, 5, 2, seed)
    found = decode_iteratively(Team(experts), observation, Composition.of_field(field), steps=5)
    tokens, hidden = observation.readable, observation.lost.clone()
    confidence = torch.ones(1, 5, dtype=torch.float64)
    while hidden.any():
        here = MaskChannel(SIZE, 0.5).observe(torch.where(hidden, SIZE, tokens))
        best, choice = pools(experts, here, field)[0].max(-1)
        place = int(best.masked_fill(~hidden[0], -np.inf).argmax())
        tokens[0, place], confidence[0, place] = choice[place], best[place].exp()
        hidden[0, place] = False
    assert torch.equal(found.tokens, tokens)
    torch.testing.assert_close(found.confidence, confidence, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 20), steps=st.integers(1, 12))
def test_any_number_of_steps_fills_everything_and_keeps_what_is_visible(seed, steps):
    experts, observation = bigrams(), masked(3, 7, seed)
    composition = Composition.of_field(some_field(3, 7, 2, seed))
    found = decode_iteratively(Team(experts), observation, composition, steps=steps)
    visible = ~observation.lost
    assert torch.equal(found.tokens[visible], observation.tokens[visible])
    assert ((found.tokens >= 0) & (found.tokens < SIZE)).all()
    assert found.cost.evaluations <= 2 * 3 * steps
    if steps == 1:
        alone = decode_one_step(Team(experts), observation, composition)
        assert torch.equal(found.tokens, alone.tokens)


def test_the_own_context_is_all_that_an_expert_sees():
    experts, observation = bigrams(), masked(1, 8, rate=0.3)
    field = torch.eye(2, dtype=torch.float64)[torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])][None]
    reading = Reading(domain_threshold=0.05)
    tokens = observation.readable
    for found, _ in predict(Team(experts), tokens, observation.lost, Composition.of_field(field), reading):
        for number, expert in enumerate(experts):
            foreign = field[..., number] < 0.05
            alone = table_of(expert, tokens, observation.lost | foreign)[0]
            own = ~foreign[0, found.position]  # an expert without weight is not asked
            torch.testing.assert_close(found.log_probs[number, own], alone[found.position[own]].float())


def test_nothing_hidden_costs_nothing():
    observation = MaskChannel(SIZE, 0.0).observe(torch.zeros(2, 4, dtype=torch.long))
    for decode in (decode_one_step, decode_iteratively):
        found = decode(Team(bigrams()), observation, Composition.of_field(some_field(2, 4, 2)))
        assert torch.equal(found.tokens, observation.tokens)
        assert found.cost.evaluations == 0


def test_no_steps_are_refused():
    with pytest.raises(ConservatorError, match="at least one"):
        decode_iteratively(Team(bigrams()), masked(1, 3), Composition.of_field(some_field(1, 3, 2)), steps=0)


def test_an_overwritten_token_is_overturned():
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    clean = torch.cat([torch.arange(30) % SIZE, -torch.arange(30) % SIZE])[None]
    observation = ReplacementChannel(SIZE, 0.2).corrupt(clean, seeded(3))
    inferred = Bayes()(team, observation, seeded())
    found = decode_with_channel(team, observation, inferred, 5, seeded())
    before, after = ((tokens == clean).double().mean() for tokens in (observation.tokens, found.tokens))
    assert before < 0.9
    assert after > before + 0.05
    assert found.cost.evaluations == 5 * 2


def test_under_a_mask_channel_the_channels_decoder_is_the_one_step_decoder():
    team, observation = Team(bigrams()), masked(2, 8)
    inferred = Bayes()(team, observation, seeded())
    with_channel = decode_with_channel(team, observation, inferred, 5, seeded())
    assert with_channel.cost.evaluations == 2 * 2  # what is visible is certain: nothing of it is read again
    one_step = decode_one_step(team, observation, inferred.composition)
    assert torch.equal(with_channel.tokens, one_step.tokens)
    torch.testing.assert_close(with_channel.confidence, one_step.confidence)
