"""The estimated gain of local weights: the leave-one-out posterior against enumeration."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.experts import At, Context, Team
from conservator.field import (
    GLOBAL,
    Bayes,
    Composition,
    Folds,
    constant,
    global_prior,
    grid_posterior,
    laplace,
    leave_one_out_posterior,
    simplex_grid,
    sticky,
    two_level,
)
from conservator.field.leave_one_out import leave_one_out_evidence
from conservator.reference import (
    BigramExpert,
    CategoricalExpert,
    finest_resolution,
    held_out_gain,
    infer_grid,
    read_folds,
)

SIZE = 4
PRIORS = {
    "constant": constant,
    "sticky": lambda weights: sticky(weights, 0.2),
    "laplace": lambda weights: laplace(weights, 1.5),
    "two-level": lambda weights: two_level(weights, 0.1, 0.3, 0.7),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.sampled_from(sorted(PRIORS)), st.integers(0, 1000), st.integers(1, 7), st.floats(0.1, 8.0))
def test_leave_one_out_equals_inference_without_the_evidence(name, seed, length, size):
    weights = simplex_grid(2)
    prior = PRIORS[name](weights)
    emissions = size * np.random.default_rng(seed).normal(size=(length, len(weights)))
    predictions = grid_posterior(emissions, weights, [prior])
    states, evidence = (
        leave_one_out_posterior(predictions.states, emissions),
        leave_one_out_evidence(predictions.states, emissions),
    )
    for position in range(length):
        without = emissions.copy()
        without[position] = 0.0
        expected = grid_posterior(without, weights, [prior])
        np.testing.assert_allclose(states[position], expected.states[position], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            evidence[position], predictions.log_evidence - expected.log_evidence, rtol=1e-6, atol=1e-6
        )


def by_enumeration(log_probs, tokens, hidden, position, weights, prior):
    """Distribution of the token at a position: all paths of states, weighted by the other hidden tokens."""
    pools = torch.log_softmax(
        torch.einsum("si,ilv->slv", torch.from_numpy(weights), log_probs.double()), dim=-1
    ).numpy()
    total = np.zeros(SIZE)
    for path in product(range(len(weights)), repeat=len(tokens)):
        probability = prior.initial[path[0]]
        for before, after in pairwise(path):
            probability *= float(before == after) if prior.transition is None else prior.transition[before, after]
        for other, state in enumerate(path):
            if hidden[other] and other != position:
                probability *= math.exp(pools[state, other, tokens[other]])
        total += probability * np.exp(pools[path[position], position])
    return total / total.sum()


def test_the_gain_is_that_of_leave_one_out_distributions(monkeypatch):
    monkeypatch.setattr("conservator.reference.local_gain.MAX_RESOLUTION", 2)  # so that the paths can be enumerated
    experts = [BigramExpert.random(SIZE, 1.5, seeded(seed), f"{seed}") for seed in (1, 2)]
    tokens = torch.randint(SIZE, (6,), generator=seeded(3))
    observation = MaskChannel(SIZE, 0.3).observe(tokens.masked_fill(torch.arange(6) == 2, SIZE)[None])
    read = read_folds(Team(experts), observation, seeded(5))
    gain_estimate = held_out_gain(read, observation, priors=lambda weights: [sticky(weights, 0.3)])
    patterns = Folds(2).draw(~observation.lost, seeded(5))[0]
    weights = simplex_grid(2)
    assert sorted(gain_estimate.position.tolist()) == [0, 1, 3, 4, 5]
    for position, nats, right in zip(
        gain_estimate.position.tolist(), gain_estimate.nats, gain_estimate.right, strict=True
    ):
        hidden = patterns[patterns[:, position]][0]
        context = Context(observation.tokens.clamp(max=SIZE - 1), (hidden | observation.lost[0])[None])
        at: At = (torch.zeros(6, dtype=torch.long), torch.arange(6))
        log_probs = torch.stack([expert.predict(context, at) for expert in experts])
        local, shared = (
            by_enumeration(log_probs, tokens.tolist(), hidden.tolist(), position, weights, prior)
            for prior in (sticky(weights, 0.3), constant(weights))
        )
        truth = int(tokens[position])
        assert float(nats) == pytest.approx(math.log(local[truth]) - math.log(shared[truth]), abs=1e-5)
        assert float(right) == float(local.argmax() == truth) - float(shared.argmax() == truth)


def two_segments(count, length=200):
    """Texts of two domain segments, each predicted by one expert, with a fifth of their tokens lost."""
    logits = torch.tensor([[2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])
    experts = [CategoricalExpert(rows.expand(length, SIZE), f"{number}") for number, rows in enumerate(logits)]
    halves = [torch.multinomial(rows.exp(), count * length // 2, True, generator=seeded(4)) for rows in logits]
    tokens = torch.cat([half.view(count, -1) for half in halves], dim=1)
    return experts, tokens, MaskChannel(SIZE, 0.2).corrupt(tokens, seeded(6))


def test_the_estimate_agrees_with_the_gain_at_lost_tokens():
    experts, tokens, observation = two_segments(40)
    gain_estimate = held_out_gain(read_folds(Team(experts), observation, seeded()), observation)
    log_probs = torch.stack([expert.log_marginals for expert in experts]).float()
    known = torch.zeros(40, 200, 2).index_fill_(2, torch.tensor([0]), 1.0)
    known[:, 100:] = torch.tensor([0.0, 1.0])
    accuracies = []
    for field in (known, torch.full((40, 200, 2), 0.5)):
        where, position = observation.lost.nonzero().T
        composed = Composition.of_field(field.double()).log_probs(log_probs[:, position], where, position)
        accuracies.append((composed.argmax(-1) == tokens[where, position]).double().mean())
    gain = float(accuracies[0] - accuracies[1])
    assert gain > 0.1
    assert float(gain_estimate.right.mean()) == pytest.approx(gain, abs=0.06)
    assert float(gain_estimate.nats.mean()) > 0.1


def test_an_expert_and_its_copy_gain_nothing():
    experts, _, observation = two_segments(2)
    gain_estimate = held_out_gain(read_folds(Team([experts[0], experts[0]]), observation, seeded()), observation)
    assert not gain_estimate.right.any()
    torch.testing.assert_close(gain_estimate.nats, torch.zeros_like(gain_estimate.nats), rtol=0, atol=1e-5)


def test_the_grid_of_the_global_weight_is_as_fine_as_the_team_allows():
    assert [finest_resolution(experts) for experts in (1, 2, 3, 4, 5, 50)] == [10, 10, 7, 4, 3, 1]


def test_an_impossible_estimate_is_refused():
    experts, tokens, _ = two_segments(1)
    uncertain = ReplacementChannel(SIZE, 0.2).corrupt(tokens, seeded())
    with pytest.raises(ConservatorError, match="uncertain tokens"):
        read_folds(Team(experts), uncertain, seeded())
    lost = MaskChannel(SIZE, 0.2).observe(torch.full_like(tokens, SIZE))
    with pytest.raises(ConservatorError, match="no visible token"):
        held_out_gain(read_folds(Team(experts), lost, seeded()), lost)


def test_fields_from_predictions_are_those_of_the_engine():
    experts, _, observation = two_segments(3)
    team = Team(experts)
    predictions = [batch for fold in read_folds(team, observation, seeded()) for batch in fold]
    for engine, weights, priors in (
        (Bayes(Folds(2)), simplex_grid(2), None),
        (replace(GLOBAL, folds=Folds(2)), simplex_grid(2, finest_resolution(2)), global_prior),
    ):
        fields = infer_grid(predictions, observation, weights, *([priors] if priors else []))
        inferred = engine(team, observation, seeded())
        torch.testing.assert_close(fields.composition().mean(), inferred.field, rtol=1e-4, atol=1e-5)


def test_a_token_does_not_influence_the_prior_of_its_own_prediction():
    experts = [BigramExpert.random(SIZE, 2.5, seeded(seed), f"{seed}") for seed in (1, 2)]
    observation = MaskChannel(SIZE, 0.2).corrupt(torch.randint(SIZE, (4, 12), generator=seeded(3)), seeded(4))
    weights = simplex_grid(2)
    fields = infer_grid(read_folds(Team(experts), observation, seeded())[0], observation, weights)
    states, chosen = fields.leave_one_out().state_probs.numpy(), set()
    for row, emissions in enumerate(fields.emissions):
        for position in range(12):
            without = emissions.copy()
            without[position] = 0.0
            expected = grid_posterior(without, weights)
            chosen.add(expected.prior == fields.posteriors[row].prior)
            np.testing.assert_allclose(states[row, position], expected.states[position], rtol=1e-6, atol=1e-9)
    assert chosen == {True, False}  # some tokens change the choice of the prior
