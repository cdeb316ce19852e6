"""The field over causal experts."""

import numpy as np
import pytest
import torch

from conservator.field import constant, infer_causal_field, log_pool, simplex_grid


def laws_of(right, wrong, tokens, likely):
    """(L, 4) laws that give the token of the text a probability of ``right`` where likely, else ``wrong``."""
    chance = torch.where(likely, right, wrong)
    laws = ((1 - chance) / 3)[:, None].expand(-1, 4).clone()
    laws.scatter_(1, torch.from_numpy(tokens)[:, None], chance[:, None])
    return laws.log()


def test_each_expert_is_trusted_where_it_predicts_what_is_visible():
    tokens = np.random.default_rng(0).integers(0, 4, 400)
    first = torch.arange(400) < 200
    laws = [laws_of(0.7, 0.2, tokens, first), laws_of(0.7, 0.2, tokens, ~first)]
    visible = np.random.default_rng(1).random(400) > 0.1
    found = infer_causal_field(laws, tokens, visible)
    assert found.field[20:180, 0].mean() > 0.8
    assert found.field[220:380, 1].mean() > 0.8
    assert np.allclose(found.field.sum(axis=1), 1)


def test_what_is_lost_is_no_evidence():
    tokens = np.random.default_rng(0).integers(0, 4, 100)
    laws = [torch.randn(100, 4, generator=torch.Generator().manual_seed(seed)).log_softmax(-1) for seed in (0, 1)]
    visible = np.arange(100) % 3 > 0
    other = np.where(visible, tokens, 3 - tokens)
    assert np.array_equal(
        infer_causal_field(laws, tokens, visible).field, infer_causal_field(laws, other, visible).field
    )


def test_the_evidence_of_one_weight_is_that_of_the_pool():
    tokens = np.random.default_rng(0).integers(0, 4, 30)
    laws = [torch.randn(30, 4, generator=torch.Generator().manual_seed(seed)).log_softmax(-1) for seed in (0, 1)]
    weights = simplex_grid(2, 10)
    found = infer_causal_field(laws, tokens, np.ones(30, dtype=bool), [constant(weights)])
    scores = []
    for weight in torch.from_numpy(weights):
        pooled = log_pool(torch.stack(laws).double(), weight.expand(30, 2))
        scores.append(float(pooled[torch.arange(30), torch.from_numpy(tokens)].sum()))
    law = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
    assert found.field[7] == pytest.approx(law @ weights)
