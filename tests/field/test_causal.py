"""The field over causal experts."""

import numpy as np
import pytest
import torch

from conservator.field import constant, infer_causal_field, log_pool, simplex_grid


def make_log_probs(right, wrong, tokens, likely):
    """Log-probabilities (L, 4) that give the token of the text ``right`` where it is likely, else ``wrong``."""
    probability = torch.where(likely, right, wrong)
    probs = ((1 - probability) / 3)[:, None].expand(-1, 4).clone()
    probs.scatter_(1, torch.from_numpy(tokens)[:, None], probability[:, None])
    return probs.log()


def test_each_expert_gets_weight_where_it_predicts_visible_tokens():
    tokens = np.random.default_rng(0).integers(0, 4, 400)
    first = torch.arange(400) < 200
    log_probs = [make_log_probs(0.7, 0.2, tokens, first), make_log_probs(0.7, 0.2, tokens, ~first)]
    visible = np.random.default_rng(1).random(400) > 0.1
    posterior = infer_causal_field(log_probs, tokens, visible)
    assert posterior.field[20:180, 0].mean() > 0.8
    assert posterior.field[220:380, 1].mean() > 0.8
    assert np.allclose(posterior.field.sum(axis=1), 1)


def test_lost_positions_are_no_evidence():
    tokens = np.random.default_rng(0).integers(0, 4, 100)
    log_probs = [torch.randn(100, 4, generator=torch.Generator().manual_seed(seed)).log_softmax(-1) for seed in (0, 1)]
    visible = np.arange(100) % 3 > 0
    other = np.where(visible, tokens, 3 - tokens)
    assert np.array_equal(
        infer_causal_field(log_probs, tokens, visible).field, infer_causal_field(log_probs, other, visible).field
    )


def test_the_evidence_of_a_global_weight_is_that_of_the_pool():
    tokens = np.random.default_rng(0).integers(0, 4, 30)
    log_probs = [torch.randn(30, 4, generator=torch.Generator().manual_seed(seed)).log_softmax(-1) for seed in (0, 1)]
    weights = simplex_grid(2, 10)
    posterior = infer_causal_field(log_probs, tokens, np.ones(30, dtype=bool), [constant(weights)])
    scores = []
    for weight in torch.from_numpy(weights):
        pooled = log_pool(torch.stack(log_probs).double(), weight.expand(30, 2))
        scores.append(float(pooled[torch.arange(30), torch.from_numpy(tokens)].sum()))
    probs = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
    assert posterior.field[7] == pytest.approx(probs @ weights)
