"""Loss rates: the fixed point of EM, the limits without and with much evidence, and their effect on a decoded text."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.decoders import decode_text
from conservator.decoders.loss_rates import CONFIG, infer_loss_rates
from conservator.experts import Team
from conservator.field import Inferred
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert


def draw(count, size, seed):
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(size), count))


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
@settings(max_examples=30)
def test_the_rates_are_a_fixed_point(seed, count):
    log_probs, visible = draw(count, 5, seed), np.random.default_rng(seed).integers(100, 2000, 5).astype(float)
    rates = infer_loss_rates(log_probs, visible)
    assert ((rates > 0) & (rates < 1)).all()
    posterior = rates * np.exp(log_probs)
    lost = (posterior / posterior.sum(axis=1, keepdims=True)).sum(axis=0)
    overall, strength = (count + 1) / (count + visible.sum() + 2), CONFIG.prior_strength
    expected = overall * (lost + strength) / (overall * (visible + lost) + strength)
    np.testing.assert_allclose(rates / rates.sum(), expected / expected.sum(), rtol=1e-2)


def test_without_lost_positions_all_rates_are_nearly_equal():
    rates = infer_loss_rates(np.zeros((0, 4)), np.array([10.0, 1000.0, 1.0, 0.0]))
    assert rates.max() < 1.2 * rates.min()


def test_tokens_that_are_lost_more_often_have_a_higher_rate():
    """Two tokens are equally frequent; the first is lost nine times as often, and the predictions are confident."""
    tokens = np.array([0] * 900 + [1] * 100)
    log_probs = np.log(np.where(tokens[:, None] == np.arange(2), 0.99, 0.01))
    rates = infer_loss_rates(log_probs, np.array([100_000.0, 100_000.0]))
    assert rates[0] / rates[1] == pytest.approx(9, rel=0.2)


def test_rates_are_inferred_only_on_request():
    tokens = torch.tensor([list(b"abcdefgh" * 8)])
    tokens[0, ::9] = BYTES.mask
    observation, team = MaskChannel(BYTES.size, 0.5).observe(tokens), Team([FakeExpert()])
    inferred = Inferred.given(torch.ones(1, tokens.shape[1], 1, dtype=torch.float64))
    assert decode_text(team, observation, inferred).loss_rates is None
    decoded = decode_text(team, observation, inferred, np.ones(BYTES.size))
    assert decoded.loss_rates is not None
    lost = observation.lost[0]
    assert (decoded.tokens[~lost] == tokens[0, ~lost].numpy()).all()
    np.testing.assert_allclose(decoded.log_probs.double().exp().sum(-1), 1, atol=5e-3)
