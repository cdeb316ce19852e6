"""Location of wrong tokens, against exact posteriors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import ConfusionChannel, ReplacementChannel, Status
from conservator.decoders import decode_text, locate_errors
from conservator.decoders.error_location import CONFIG, find_violations, spread_folds, with_equal_digits
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import Inferred, SubsampledBayes
from conservator.reference import BigramExpert, CategoricalExpert
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert

SIZE = 4
ENGINE = SubsampledBayes()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 6))
def test_folds_are_a_partition_with_neighbours_in_different_folds(flags, count):
    positions = torch.tensor([flags])
    patterns = spread_folds(positions, count)
    assert torch.equal(patterns.sum(dim=1), positions.long())
    for pattern in patterns[0]:
        order = torch.cumsum(positions[0].long(), 0)[pattern]
        assert (torch.diff(order) == count).all()


@pytest.mark.parametrize("confusion", [False, True])
def test_error_probabilities_are_those_of_the_channels_posterior(confusion):
    """An expert that ignores its context: the posterior of each token is exact."""
    rate, length = 0.3, 9
    channel = ReplacementChannel(SIZE, rate)
    if confusion:
        channel = ConfusionChannel((1 - rate) * torch.eye(SIZE, dtype=torch.float64) + rate / SIZE)
    expert = CategoricalExpert(2 * torch.randn(length, SIZE, generator=seeded()), "fixed")
    observation = channel.observe(torch.randint(SIZE, (1, length), generator=seeded(1)))
    located, inferred = locate_errors(Team([expert]), observation, ENGINE, seeded(), CONFIG.decoded_error_prob)
    posterior = observation.likelihood.log_posterior(expert.log_marginals.double()).exp()[0]
    expected = 1 - posterior.gather(-1, observation.tokens[0][:, None])[:, 0]
    torch.testing.assert_close(inferred.error_probs[0], expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(located.lost[0], expected > CONFIG.decoded_error_prob)
    assert not located.uncertain.any()
    assert torch.equal(located.tokens, observation.tokens)


def test_wrong_tokens_are_hidden_from_the_prediction_of_their_neighbours():
    """Tokens that count up, two adjacent ones overwritten: only with both hidden, their neighbours are likely."""
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    clean = (torch.arange(60) % SIZE)[None]
    tokens = clean.clone()
    wrong = torch.tensor([20, 21, 40])
    tokens[0, wrong] = (tokens[0, wrong] + torch.tensor([2, 3, 2])) % SIZE
    observation = ReplacementChannel(SIZE, 0.1).observe(tokens)
    _, inferred = locate_errors(
        Team([BigramExpert(torch.zeros(SIZE), up)]), observation, ENGINE, seeded(), CONFIG.decoded_error_prob
    )
    error_probs = inferred.error_probs[0]
    assert error_probs[wrong].min() > 0.9
    correct = torch.ones(60, dtype=torch.bool)
    correct[wrong] = False
    assert error_probs[correct].max() < 0.2


def test_lost_and_known_tokens_have_no_error_probability():
    observation = ReplacementChannel(256, 0.2).observe(torch.tensor([[97, 256, 98, 99]]))
    status = observation.status.clone()
    status[0, 3] = int(Status.KNOWN)
    observation = type(observation)(observation.tokens, status, observation.likelihood, 256)
    located, inferred = locate_errors(Team([FakeExpert()]), observation, ENGINE, seeded(), CONFIG.decoded_error_prob)
    assert inferred.error_probs[0, [1, 3]].tolist() == [0, 0]
    assert located.lost[0, 1]
    assert not located.lost[0, 3]


@given(st.binary(min_size=1, max_size=16), st.integers(0, 3))
def test_visible_tokens_are_allowed_beside_known_text(data, position):
    """Known text, here a complete character, is never a violation; without the violations the rest is valid."""
    known = "\u00e9".encode()
    tokens = torch.tensor([[*data[:position], *known, *data[position:]]])
    observation = ReplacementChannel(256, 0.2).observe(tokens)
    status = observation.status.clone()
    start = min(position, len(data))
    status[0, start : start + len(known)] = int(Status.KNOWN)
    observation = type(observation)(observation.tokens, status, observation.likelihood, 256)
    violations = find_violations(Team([FakeExpert()]), observation, torch.zeros_like(observation.lost))
    assert not violations[0, start : start + len(known)].any()
    remaining = tokens.masked_fill(violations, BYTES.mask)[0].numpy()
    assert not BYTES.constraint.violations(remaining).any()


def test_uncertain_tokens_are_not_decoded():
    observation = ReplacementChannel(256, 0.2).observe(torch.tensor([[97, 98]]))
    inferred = Inferred.given(torch.ones(1, 2, 1, dtype=torch.float64))
    with pytest.raises(ConservatorError, match="locate_errors"):
        decode_text(Team([FakeExpert()]), observation, inferred)


def test_a_hidden_token_is_decoded_with_its_likelihood():
    observation = ReplacementChannel(256, 0.2).observe(torch.tensor([[97, 98, 99]]))
    located = observation.with_hidden(torch.tensor([[False, True, False]]))
    expert = FakeExpert(sharpness=1.0)
    decoded = decode_text(Team([expert]), located, Inferred.given(torch.ones(1, 3, 1, dtype=torch.float64)))
    posterior = observation.likelihood.log_posterior(expert.table[97].double().expand(3, -1))[0, 1].exp()
    ascii_only = posterior[:128] / posterior[:128].sum()
    assert decoded.tokens[1] == int(ascii_only.argmax())
    np.testing.assert_allclose(decoded.confidence[1], ascii_only.max(), rtol=1e-3)


def test_digits_share_their_probability():
    log_probs = torch.log_softmax(torch.randn(3, 256, generator=torch.Generator().manual_seed(0)), dim=-1)
    equal = with_equal_digits(log_probs)
    assert torch.allclose(equal.logsumexp(-1), torch.zeros(3), atol=1e-5)
    assert torch.allclose(equal[:, 48:58], equal[:, 48:49].expand(3, 10))
    others = [token for token in range(256) if not 48 <= token < 58]
    assert torch.equal(equal[:, others], log_probs[:, others])
