"""Channels with unknown error positions: error probabilities, and symbols that are not tokens."""

import pytest
import torch

from conservator.channels import ConfusionChannel, ReplacementChannel
from conservator.experts import Context, Team
from conservator.field import Bayes, Folds, log_pool, simplex_grid
from conservator.reference import Ascent, BigramExpert, CategoricalExpert, Maximum, decode_one_step, decode_with_channel
from support.gathering import gather

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_probability_of_a_correct_token_is_the_channels_posterior():
    channel, weights = ReplacementChannel(SIZE, 0.4), torch.tensor(simplex_grid(2, 2))
    table = torch.randn(2, 7, SIZE, generator=seeded())
    experts = [CategoricalExpert(rows, f"{number}") for number, rows in enumerate(table)]
    observation = channel.corrupt(torch.randint(SIZE, (1, 7), generator=seeded()), seeded())
    evidence, _ = gather(experts, observation, Folds(2, 3), seeded(), weights)
    log_probs = torch.stack([expert.log_marginals for expert in experts])
    for state, weight in enumerate(weights):
        probs = observation.likelihood.log_posterior(log_pool(log_probs, weight.expand(7, 2))).exp()
        expected = probs.gather(-1, observation.tokens[..., None])[..., 0]
        torch.testing.assert_close(evidence.correct_probs[..., state], expected, rtol=1e-5, atol=1e-6)


def test_tokens_with_error_probability_one_are_hidden():
    hidden_masks = []

    class RecordingExpert(BigramExpert):
        def predict(self, context, at):
            hidden_masks.append(context.hidden)
            return super().predict(context, at)

    expert = RecordingExpert(torch.zeros(SIZE), torch.zeros(SIZE, SIZE))
    observation = ReplacementChannel(SIZE, 0.4).observe(torch.zeros(1, 8, dtype=torch.long))
    error_probs = torch.tensor([[1.0, 0, 0, 0, 1, 0, 0, 0]])
    gather([expert], observation, Folds(4), seeded(), torch.ones(1, 1), error_probs)
    hidden = torch.cat(hidden_masks)
    assert hidden[:, [0, 4]].all()
    assert hidden.sum() == 4 * 2 + 6  # the other six, once each


def test_replaced_tokens_get_high_error_probabilities():
    """Tokens that count up and down, a few of them overwritten: the iterations find them."""
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    clean = torch.cat([torch.arange(30) % SIZE, -torch.arange(30) % SIZE])[None]
    observation = ReplacementChannel(SIZE, 0.2).corrupt(clean, seeded(3))
    wrong = observation.tokens != clean
    assert 4 <= wrong.sum() <= 15
    inferred = Bayes()(team, observation, seeded())
    assert inferred.error_probs[wrong].mean() > 0.6
    assert inferred.error_probs[~wrong].mean() < 0.1
    assert inferred.cost.evaluations == 3 * 6 * 2


def test_symbols_that_are_not_tokens_are_evidence_but_are_hidden():
    """A channel with one symbol more than tokens: the likelihood uses its column, and experts never read it."""
    matrix = torch.full((SIZE, SIZE + 1), 0.05) + torch.cat([0.7 * torch.eye(SIZE), torch.full((SIZE, 1), 0.05)], 1)
    channel = ConfusionChannel(matrix)

    class CheckingExpert(BigramExpert):
        def predict(self, context, at):
            tokens, hidden = context.tokens, context.hidden
            assert (tokens[~hidden] < SIZE).all()
            return super().predict(Context(tokens.masked_fill(hidden, 0), hidden), at)

    bigrams = [BigramExpert.random(SIZE, 1.5, seeded(seed), f"{seed}") for seed in range(2)]
    team = Team([CheckingExpert(expert.initial, expert.transition, expert.spec.name) for expert in bigrams])
    observation = channel.observe(torch.tensor([[0, 1, SIZE, 2, 3, SIZE, SIZE, 1, 0]]))
    not_a_token = observation.tokens == SIZE
    for engine in (Bayes(), Maximum(), Ascent()):
        inferred = engine(team, observation, seeded())
        assert (inferred.error_probs[not_a_token] == 1).all()
        assert (inferred.error_probs[~not_a_token] < 1).all()
        restored = decode_with_channel(team, observation, inferred, 3, seeded())
        assert (restored.tokens < SIZE).all()
        copied = decode_one_step(team, observation, inferred.composition)
        assert torch.equal(copied.tokens[~not_a_token], observation.tokens[~not_a_token])
        assert (copied.tokens < SIZE).all()


@pytest.mark.parametrize("engine", [Maximum(), Ascent()])
def test_every_engine_infers_error_probabilities_that_correct_tokens(engine):
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    clean = torch.cat([torch.arange(30) % SIZE, -torch.arange(30) % SIZE])[None]
    observation = ReplacementChannel(SIZE, 0.2).corrupt(clean, seeded(3))
    inferred = engine(team, observation, seeded())
    wrong = observation.tokens != clean
    assert inferred.error_probs[wrong].mean() > 0.5 > 0.15 > inferred.error_probs[~wrong].mean()
    restored = decode_with_channel(team, observation, inferred, 5, seeded())
    assert (restored.tokens == clean).double().mean() > (~wrong).double().mean() + 0.05
