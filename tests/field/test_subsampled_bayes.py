"""The survey: its sample, its evidence against enumeration, whom it chooses."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.experts import Team
from conservator.field import SubsampledBayes, global_prior, simplex_grid
from conservator.field.sampling import PERIOD, STRETCH, spread, stretches
from conservator.field.selection import HALF, choose_experts
from conservator.reference import BigramExpert, CategoricalExpert

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def observe(tokens, lost):
    return MaskChannel(SIZE, 0.5).observe(tokens.masked_fill(lost, SIZE))


@given(st.integers(1, 4000), st.integers(1, 30))
def test_a_sample_is_of_short_stretches_all_over_the_text(length, most):
    observation = observe(torch.zeros(1, length, dtype=torch.long), torch.zeros(1, length, dtype=torch.bool))
    found = stretches(torch.ones(1, length, dtype=torch.bool), observation)
    sizes = torch.bincount(found[found >= 0])
    assert int(sizes.max()) <= STRETCH
    assert int((found >= 0).sum()) >= min(length, STRETCH * (length // PERIOD))
    outside = found < 0
    edges = np.flatnonzero(np.diff(outside.numpy().astype(int), prepend=0, append=0))
    assert all(stop - start < PERIOD for start, stop in zip(edges[::2], edges[1::2], strict=True))
    few = spread(found, most)
    assert len(found[few].unique()) == min(most, len(sizes))
    assert (found[few] >= 0).all()


def test_the_evidence_is_that_of_the_hidden_half():
    """Experts without context: the evidence of one composition can be written down."""
    logits = torch.randn(2, 60, SIZE, generator=seeded(3), dtype=torch.float64)
    experts = [CategoricalExpert(rows, f"expert {number}") for number, rows in enumerate(logits)]
    tokens = torch.randint(SIZE, (1, 60), generator=seeded(1))
    lost = torch.rand(1, 60, generator=seeded(2)) < 0.2
    found = SubsampledBayes(priors=global_prior)(Team(experts), observe(tokens, lost), seeded())
    hidden = HALF.draw(~lost, seeded())[0, 0]
    laws = torch.log_softmax(logits, dim=-1)
    each = []
    for weight in simplex_grid(2):
        pool = torch.log_softmax((torch.from_numpy(weight)[:, None, None] * laws).sum(0), dim=-1)
        each.append(pool[hidden, tokens[0, hidden]].sum())
    each = torch.stack(each)
    expected = torch.logsumexp(each, 0) - np.log(len(each))
    outcome = found.outcomes[0]
    channel = int(hidden.sum()) * np.log(0.5)
    np.testing.assert_allclose(outcome.log_evidence, float(expected) + channel, rtol=1e-6)
    np.testing.assert_allclose(outcome.cross_entropy, -float(expected) / int(hidden.sum()), rtol=1e-6)
    share = torch.softmax(each, 0)
    if (share @ torch.from_numpy(simplex_grid(2)) > 0.1).all():
        torch.testing.assert_close(found.composition.share[0, 0], share, rtol=1e-5, atol=1e-6)


def two_regions():
    """A text of two regions, after two chains that hardly agree, and three experts, of whom one knows neither."""
    up = 4.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [BigramExpert(torch.zeros(SIZE), table, name) for table, name in ((up, "up"), (up.T, "down"))]
    experts.append(BigramExpert(torch.zeros(SIZE), 4.0 * torch.eye(SIZE), "same"))
    tokens = torch.cat([torch.arange(2000) % SIZE, -torch.arange(2000) % SIZE])[None]
    return experts, observe(tokens, torch.rand(1, 4000, generator=seeded(5)) < 0.1)


@pytest.fixture(scope="module")
def surveyed():
    """The survey of the two regions by all."""
    experts, observation = two_regions()
    return SubsampledBayes()(Team(experts), observation, seeded())


def test_regions_are_found_from_a_sample(surveyed):
    found = surveyed
    assert found.field[0, :1900, 0].mean() > 0.95
    assert found.field[0, 2100:, 1].mean() > 0.95
    torch.testing.assert_close(found.field.sum(-1), torch.ones(1, 4000, dtype=torch.float64))


def test_of_a_long_text_lost_positions_have_the_same_posterior(surveyed, monkeypatch):
    experts, observation = two_regions()
    every = surveyed
    monkeypatch.setattr("conservator.field.engines.subsampled_bayes.LONG", 100)
    some = SubsampledBayes()(Team(experts), observation, seeded())
    lost = observation.lost
    torch.testing.assert_close(some.field[lost], every.field[lost])
    torch.testing.assert_close(some.composition.share[lost], every.composition.share[lost])
    np.testing.assert_allclose(some.outcomes[0].log_evidence, every.outcomes[0].log_evidence, rtol=1e-9)


def test_experts_that_have_nothing_to_say_are_asked_no_more():
    experts, observation = two_regions()
    team = Team(experts)
    found = SubsampledBayes(chooses=True)(team, observation, seeded())
    assert not found.field[..., 2].any()
    assert not found.composition.asked()[..., 2].any()
    assert found.field[0, :1900, 0].mean() > 0.95
    assert choose_experts(team, observation, seeded()).names == ("up", "down")


def test_a_sequence_without_anything_visible_follows_the_prior():
    lost = torch.ones(1, 5, dtype=torch.bool)
    found = SubsampledBayes(chooses=True)(
        Team(two_regions()[0]), observe(torch.zeros(1, 5, dtype=torch.long), lost), seeded()
    )
    torch.testing.assert_close(found.field, torch.full((1, 5, 3), 1 / 3, dtype=torch.float64), rtol=0.02, atol=0.02)
    assert found.outcomes[0].cross_entropy is None


def test_the_gain_of_local_weights_is_foretold_by_the_hidden_half(surveyed):
    experts, observation = two_regions()
    assert surveyed.outcomes[0].local_gain > 0.1
    assert SubsampledBayes(priors=global_prior)(Team(experts), observation, seeded()).outcomes[0].local_gain == 0
    assert SubsampledBayes()(Team(experts[:1]), observation, seeded()).outcomes[0].local_gain is None
    one_kind = observation[:, :2000]
    assert abs(SubsampledBayes()(Team(experts), one_kind, seeded()).outcomes[0].local_gain) < 0.01
    assert (
        SubsampledBayes(chooses=True)(Team(experts[:1] + experts[2:]), one_kind, seeded()).outcomes[0].local_gain == 0
    )
