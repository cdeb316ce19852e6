"""Decoders against the exact conditionals of small experts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.decoders import ContextPolicy, predict
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
    log_probs = torch.stack([table_of(expert, tokens, observation.lost) for expert in experts], dim=-1)
    return torch.log_softmax((log_probs * field[:, :, None]).sum(-1), dim=-1)


@given(seed=st.integers(0, 30), length=st.integers(1, 8))
def test_one_step_takes_the_mode_of_the_pool_and_copies_visible_tokens(seed, length):
    experts, observation = bigrams(), masked(3, length, seed)
    field = some_field(3, length, 2, seed)
    decoded = decode_one_step(Team(experts), observation, Composition.of_field(field))
    expected = pools(experts, observation, field)
    hidden = observation.lost
    assert torch.equal(decoded.tokens[~hidden], observation.tokens[~hidden])
    assert (decoded.confidence[~hidden] == 1).all()
    assert torch.equal(decoded.tokens[hidden], expected.argmax(-1)[hidden])
    torch.testing.assert_close(decoded.confidence[hidden], expected.max(-1).values.exp()[hidden], rtol=1e-5, atol=1e-6)
    assert decoded.cost.evaluations == 2 * int(hidden.any(-1).sum())


def test_the_posterior_predictive_is_the_mixture_of_pools():
    experts, observation = bigrams(3), masked(2, 6)
    weights = torch.tensor(simplex_grid(3, 2))
    states = torch.rand(2, 6, 6, generator=seeded(), dtype=torch.float64).softmax(-1)
    composition = Composition.of_states(states, weights)
    expected = sum(
        states[:, :, [s]] * pools(experts, observation, weights[s].expand(2, 6, 3)).exp() for s in range(6)
    ).log()
    tokens = observation.readable
    count = 0
    for predictions, log_probs in predict(Team(experts), tokens, observation.lost, composition):
        index = (predictions.sequence, predictions.position)
        torch.testing.assert_close(log_probs.double(), expected[index], rtol=1e-4, atol=1e-5)
        count += len(log_probs)
    assert count == int(observation.lost.sum())
    torch.testing.assert_close(composition.mean().sum(-1), torch.ones(2, 6, dtype=torch.float64))


@given(seed=st.integers(0, 20))
def test_many_steps_fill_the_most_confident_token_first(seed):
    """With one token per step, the result is that of a loop by hand."""
    experts, observation = bigrams(), masked(1, 5, seed)
    field = some_field(1, 5, 2, seed)
    decoded = decode_iteratively(Team(experts), observation, Composition.of_field(field), steps=5)
    tokens, hidden = observation.readable, observation.lost.clone()
    confidence = torch.ones(1, 5, dtype=torch.float64)
    while hidden.any():
        partial = MaskChannel(SIZE, 0.5).observe(torch.where(hidden, SIZE, tokens))
        best, choice = pools(experts, partial, field)[0].max(-1)
        position = int(best.masked_fill(~hidden[0], -np.inf).argmax())
        tokens[0, position], confidence[0, position] = choice[position], best[position].exp()
        hidden[0, position] = False
    assert torch.equal(decoded.tokens, tokens)
    torch.testing.assert_close(decoded.confidence, confidence, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 20), steps=st.integers(1, 12))
def test_any_number_of_steps_fills_all_lost_tokens_and_keeps_visible_ones(seed, steps):
    experts, observation = bigrams(), masked(3, 7, seed)
    composition = Composition.of_field(some_field(3, 7, 2, seed))
    decoded = decode_iteratively(Team(experts), observation, composition, steps=steps)
    visible = ~observation.lost
    assert torch.equal(decoded.tokens[visible], observation.tokens[visible])
    assert ((decoded.tokens >= 0) & (decoded.tokens < SIZE)).all()
    assert decoded.cost.evaluations <= 2 * 3 * steps
    if steps == 1:
        expected = decode_one_step(Team(experts), observation, composition)
        assert torch.equal(decoded.tokens, expected.tokens)


def test_an_expert_conditions_only_on_its_domain():
    experts, observation = bigrams(), masked(1, 8, rate=0.3)
    field = torch.eye(2, dtype=torch.float64)[torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])][None]
    policy = ContextPolicy(domain_threshold=0.05)
    tokens = observation.readable
    for predictions, _ in predict(Team(experts), tokens, observation.lost, Composition.of_field(field), policy):
        for number, expert in enumerate(experts):
            out_of_domain = field[..., number] < 0.05
            expected = table_of(expert, tokens, observation.lost | out_of_domain)[0]
            in_domain = ~out_of_domain[0, predictions.position]  # inactive experts are not evaluated
            torch.testing.assert_close(
                predictions.log_probs[number, in_domain], expected[predictions.position[in_domain]].float()
            )


def test_without_hidden_tokens_no_expert_is_evaluated():
    observation = MaskChannel(SIZE, 0.0).observe(torch.zeros(2, 4, dtype=torch.long))
    for decode in (decode_one_step, decode_iteratively):
        decoded = decode(Team(bigrams()), observation, Composition.of_field(some_field(2, 4, 2)))
        assert torch.equal(decoded.tokens, observation.tokens)
        assert decoded.cost.evaluations == 0


def test_zero_steps_are_refused():
    with pytest.raises(ConservatorError, match="steps must be at least 1, got 0"):
        decode_iteratively(Team(bigrams()), masked(1, 3), Composition.of_field(some_field(1, 3, 2)), steps=0)


def test_an_overwritten_token_is_corrected():
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    clean = torch.cat([torch.arange(30) % SIZE, -torch.arange(30) % SIZE])[None]
    observation = ReplacementChannel(SIZE, 0.2).corrupt(clean, seeded(3))
    inferred = Bayes()(team, observation, seeded())
    decoded = decode_with_channel(team, observation, inferred, 5, seeded())
    before, after = ((tokens == clean).double().mean() for tokens in (observation.tokens, decoded.tokens))
    assert before < 0.9
    assert after > before + 0.05
    assert decoded.cost.evaluations == 5 * 2


def test_under_a_mask_channel_the_channels_decoder_is_the_one_step_decoder():
    team, observation = Team(bigrams()), masked(2, 8)
    inferred = Bayes()(team, observation, seeded())
    with_channel = decode_with_channel(team, observation, inferred, 5, seeded())
    assert with_channel.cost.evaluations == 2 * 2  # visible tokens are known and are not predicted
    one_step = decode_one_step(team, observation, inferred.composition)
    assert torch.equal(with_channel.tokens, one_step.tokens)
    torch.testing.assert_close(with_channel.confidence, one_step.confidence)
