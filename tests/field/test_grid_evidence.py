"""Composite evidence of a weight grid: against enumeration, closed forms, and windows by hand."""

import numpy as np
import pytest
import torch

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.experts.team import TeamConfig
from conservator.field import Folds, simplex_grid
from conservator.field.pool import log_pool_at
from conservator.reference import BigramExpert, CategoricalExpert, CompositeEvidence, all_sequences
from support.gathering import gather

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2, scale=1.5):
    return [BigramExpert.random(SIZE, scale, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(length, seed=0, rate=0.3, rows=None):
    shape = (length,) if rows is None else (rows, length)
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, shape, generator=seeded(seed)), seeded(seed + 1))


def test_the_chunk_size_does_not_change_the_evidence(monkeypatch):
    experts, observation, weights = bigrams(), masked(9, rows=5), torch.tensor(simplex_grid(2, 2))
    whole = gather(experts, observation, Folds(3), seeded(), weights)[0].emissions
    for config in (TeamConfig(batch_bytes=1), TeamConfig(batch_bytes=1, part_bytes=1)):
        monkeypatch.setattr("conservator.experts.team.TEAM_CONFIG", config)
        pieces = gather(experts, observation, Folds(3), seeded(), weights)[0].emissions
        torch.testing.assert_close(whole, pieces)


def test_grid_scores_are_the_evidence_at_constant_fields():
    experts, observation, weights = bigrams(3), masked(10), torch.tensor(simplex_grid(3, 2))
    emissions = gather(experts, observation[None], Folds(3, 2), seeded(), weights)[0].emissions
    evidence = CompositeEvidence.gather(Team(experts), observation, Folds(3, 2), seeded())
    assert (emissions[0][observation.lost] == 0).all()
    for state, weight in enumerate(weights):
        value, _ = evidence.value_and_gradient(weight.expand(10, 3))
        torch.testing.assert_close(emissions[0, :, state].sum(), value, rtol=1e-5, atol=1e-5)


def test_edge_cases():
    experts, weights = bigrams(), torch.tensor(simplex_grid(2, 2))
    channel = MaskChannel(SIZE, 0.5)
    lost = channel.observe(torch.full((1, 5), channel.mask_id))
    evidence, cost = gather(experts, lost, Folds(5), seeded(), weights)
    assert (evidence.emissions == 0).all()
    assert cost.evaluations == 0  # without visible positions, no expert is evaluated
    short = channel.observe(torch.tensor([[1, 2]]))
    evidence, cost = gather(experts, short, Folds(5), seeded(), weights)
    assert torch.isfinite(evidence.emissions).all()
    assert (evidence.correct_probs == 1).all()
    assert cost.evaluations == 2 * 2  # two of the five folds contain a position
    other = BigramExpert.random(SIZE + 1, 1.0, seeded(), "other")
    for bad, message in [([], "no experts"), ([other], "tokens"), ([*experts, other], "different vocabularies")]:
        with pytest.raises(ConservatorError, match=message):
            gather(bad, short, Folds(5), seeded(), weights)


def test_long_sequences_are_read_in_windows():
    table = torch.randn(60, SIZE, generator=seeded())

    class Short(CategoricalExpert):
        """Reads at most 8 positions, and predicts each from the token before it."""

        def predict(self, context, at):
            tokens, hidden = context.tokens, context.hidden
            assert tokens.shape[1] <= 8
            before = torch.cat([tokens[:, :1] * 0, tokens[:, :-1].masked_fill(hidden[:, :-1], 0)], dim=1)
            return torch.log_softmax(table[before[at]], dim=-1).double()

    expert = Short(torch.zeros(8, SIZE), "short")
    observation = masked(50, rows=1)
    weights = torch.ones(1, 1).double()
    emissions = gather([expert], observation, Folds(2), seeded(), weights)[0].emissions
    # The same by hand: every position in its window, with its fold hidden. The first position of a window has no token
    # before it; only the first window scores this position.
    patterns = Folds(2).draw(~observation.lost, seeded())[0]
    tokens, lost = observation.tokens[0], observation.lost[0]
    for position in (~lost).nonzero()[:, 0].tolist():
        hidden = lost | patterns[int(patterns[:, position].nonzero())]
        before = 0 if position == 0 or hidden[position - 1] else int(tokens[position - 1])
        expected = torch.log_softmax(table[before], dim=-1)[tokens[position]] + np.log(0.7)
        assert float(emissions[0, position, 0]) == pytest.approx(float(expected), abs=1e-5)


def test_pools_of_a_grid():
    log_probs = torch.log_softmax(torch.randn(2, 3, 7, generator=seeded()), -1)
    for weight in torch.tensor(simplex_grid(2, 4)):
        mixed = torch.einsum("i,inv->nv", weight.float(), log_probs)
        pool, log_norm = log_pool_at(log_probs, weight)
        torch.testing.assert_close(pool, torch.log_softmax(mixed, -1))
        torch.testing.assert_close(log_norm.expand(3), torch.logsumexp(mixed, -1), rtol=1e-5, atol=1e-6)


def test_without_the_prior_term_a_state_is_scored_by_its_mean_log_probability():
    experts, observation, weights = bigrams(), masked(9, rows=2), torch.tensor(simplex_grid(2, 2))
    with_prior = gather(experts, observation, Folds(3), seeded(), weights)[0].emissions
    without = gather(experts, observation, Folds(3), seeded(), weights, prior_term=False)[0].emissions
    torch.testing.assert_close(without[..., :2], with_prior[..., :2])  # a single expert is normalised
    log_keep = np.log(0.7) * (~observation.lost)
    torch.testing.assert_close(without[..., 2] - log_keep, (without[..., :2] - log_keep[..., None]).mean(-1))


def test_composite_evidence_matches_enumerated_conditionals():
    """Two chains with all sequences enumerated: conditionals by summation, pools and the channel by hand."""
    experts, weights, length = bigrams(), torch.tensor(simplex_grid(2, 2)), 5
    sequences = all_sequences(SIZE, length)
    joints = [expert.log_density(sequences).exp() for expert in experts]
    for channel in (MaskChannel(SIZE, 0.3), ReplacementChannel(SIZE, 0.3)):
        observation = channel.corrupt(torch.randint(SIZE, (1, length), generator=seeded(5)), seeded(6))
        emissions = gather(experts, observation, Folds(2), seeded(), weights)[0].emissions[0]
        patterns = Folds(2).draw(~observation.lost, seeded())[0]
        tokens, lost = observation.tokens[0], observation.lost[0]
        for position in (~lost).nonzero()[:, 0].tolist():
            shown = ~(lost | patterns[int(patterns[:, position].nonzero())])
            fits = (sequences[:, shown] == tokens[shown]).all(-1)
            table = torch.stack(
                [
                    torch.stack([joint[fits & (sequences[:, position] == v)].sum() for v in range(SIZE)])
                    for joint in joints
                ]
            )
            log_probs = (table / table.sum(-1, keepdim=True)).log()
            likelihood = channel.observe(tokens[[position]]).likelihood.table()[0]
            for state, weight in enumerate(weights):
                pool = torch.log_softmax(weight @ log_probs, dim=-1)
                expected = torch.logsumexp(likelihood + pool, dim=-1)
                torch.testing.assert_close(emissions[position, state], expected, rtol=1e-5, atol=1e-5)


def test_without_the_prior_term_any_channel_sums_the_unnormalised_pool():
    channel, weights = ReplacementChannel(SIZE, 0.3), torch.tensor(simplex_grid(2, 2))
    experts = [CategoricalExpert(torch.randn(6, SIZE, generator=seeded(n)), f"{n}") for n in range(2)]
    observation = channel.observe(torch.randint(SIZE, (1, 6), generator=seeded()))
    evidence, _ = gather(experts, observation, Folds(2), seeded(), weights, prior_term=False)
    log_probs = torch.stack([expert.log_marginals for expert in experts])
    for state, weight in enumerate(weights):
        mixed = torch.einsum("i,ilv->lv", weight, log_probs)
        expected = torch.logsumexp(observation.likelihood.table() + mixed, dim=-1)
        torch.testing.assert_close(evidence.emissions[..., state], expected, rtol=1e-5, atol=1e-6)
    whole, _ = gather(experts, observation, Folds(2), seeded(), weights)
    torch.testing.assert_close(evidence.correct_probs, whole.correct_probs)  # it does not depend on the prior term
