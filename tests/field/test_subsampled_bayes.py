"""``SubsampledBayes``: the sample, the evidence against enumeration, and the chosen experts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.experts import Team
from conservator.field import SubsampledBayes, global_prior, simplex_grid
from conservator.field.engines.subsampled_bayes import SubsampledBayesConfig
from conservator.field.sampling import CONFIG as SAMPLING
from conservator.field.sampling import sample_spans, spread
from conservator.field.selection import HALVES, choose_experts
from conservator.reference import BigramExpert, CategoricalExpert

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def observe(tokens, lost):
    return MaskChannel(SIZE, 0.5).observe(tokens.masked_fill(lost, SIZE))


@given(st.integers(1, 4000), st.integers(1, 30))
def test_a_sample_consists_of_short_spans_spread_over_the_text(length, max_spans):
    observation = observe(torch.zeros(1, length, dtype=torch.long), torch.zeros(1, length, dtype=torch.bool))
    span_index = sample_spans(torch.ones(1, length, dtype=torch.bool), observation)
    sizes = torch.bincount(span_index[span_index >= 0])
    span, period = SAMPLING.span_positions, SAMPLING.max_period
    assert int(sizes.max()) <= span
    assert int((span_index >= 0).sum()) >= min(length, span * (length // period))
    outside = span_index < 0
    edges = np.flatnonzero(np.diff(outside.numpy().astype(int), prepend=0, append=0))
    assert all(stop - start < period for start, stop in zip(edges[::2], edges[1::2], strict=True))
    subset = spread(span_index, max_spans)
    assert len(span_index[subset].unique()) == min(max_spans, len(sizes))
    assert (span_index[subset] >= 0).all()


def test_the_evidence_is_that_of_the_hidden_half():
    """Experts without context: the evidence of a composition has a closed form."""
    logits = torch.randn(2, 60, SIZE, generator=seeded(3), dtype=torch.float64)
    experts = [CategoricalExpert(rows, f"expert {number}") for number, rows in enumerate(logits)]
    tokens = torch.randint(SIZE, (1, 60), generator=seeded(1))
    lost = torch.rand(1, 60, generator=seeded(2)) < 0.2
    inferred = SubsampledBayes(priors=global_prior)(Team(experts), observe(tokens, lost), seeded())
    hidden = HALVES.draw(~lost, seeded())[0, 0]
    log_probs = torch.log_softmax(logits, dim=-1)
    scores = []
    for weight in simplex_grid(2):
        pool = torch.log_softmax((torch.from_numpy(weight)[:, None, None] * log_probs).sum(0), dim=-1)
        scores.append(pool[hidden, tokens[0, hidden]].sum())
    scores = torch.stack(scores)
    expected = torch.logsumexp(scores, 0) - np.log(len(scores))
    outcome = inferred.outcomes[0]
    channel = int(hidden.sum()) * np.log(0.5)
    np.testing.assert_allclose(outcome.log_evidence, float(expected) + channel, rtol=1e-6)
    np.testing.assert_allclose(outcome.cross_entropy, -float(expected) / int(hidden.sum()), rtol=1e-6)
    state_probs = torch.softmax(scores, 0)
    if (state_probs @ torch.from_numpy(simplex_grid(2)) > 0.1).all():
        torch.testing.assert_close(inferred.composition.state_probs[0, 0], state_probs, rtol=1e-5, atol=1e-6)


def two_segments():
    """A text with two domain segments from two dissimilar chains, and three experts, one of them out of domain."""
    up = 4.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [BigramExpert(torch.zeros(SIZE), table, name) for table, name in ((up, "up"), (up.T, "down"))]
    experts.append(BigramExpert(torch.zeros(SIZE), 4.0 * torch.eye(SIZE), "same"))
    tokens = torch.cat([torch.arange(2000) % SIZE, -torch.arange(2000) % SIZE])[None]
    return experts, observe(tokens, torch.rand(1, 4000, generator=seeded(5)) < 0.1)


@pytest.fixture(scope="module")
def inferred_from_sample():
    """The composition of the two segments, inferred with all experts."""
    experts, observation = two_segments()
    return SubsampledBayes()(Team(experts), observation, seeded())


def test_domain_segments_are_inferred_from_a_sample(inferred_from_sample):
    assert inferred_from_sample.field[0, :1900, 0].mean() > 0.95
    assert inferred_from_sample.field[0, 2100:, 1].mean() > 0.95
    torch.testing.assert_close(inferred_from_sample.field.sum(-1), torch.ones(1, 4000, dtype=torch.float64))


def test_thinning_a_long_text_keeps_the_posterior_of_lost_positions(inferred_from_sample, monkeypatch):
    experts, observation = two_segments()
    dense = inferred_from_sample
    config = SubsampledBayesConfig(max_dense_positions=100)
    monkeypatch.setattr("conservator.field.engines.subsampled_bayes.CONFIG", config)
    thinned = SubsampledBayes()(Team(experts), observation, seeded())
    lost = observation.lost
    torch.testing.assert_close(thinned.field[lost], dense.field[lost])
    torch.testing.assert_close(thinned.composition.state_probs[lost], dense.composition.state_probs[lost])
    np.testing.assert_allclose(thinned.outcomes[0].log_evidence, dense.outcomes[0].log_evidence, rtol=1e-9)


def test_experts_without_weight_in_a_part_of_the_sample_are_skipped():
    experts, observation = two_segments()
    team = Team(experts)
    inferred = SubsampledBayes(choose_experts=True)(team, observation, seeded())
    assert not inferred.field[..., 2].any()
    assert not inferred.composition.active_experts()[..., 2].any()
    assert inferred.field[0, :1900, 0].mean() > 0.95
    assert choose_experts(team, observation, seeded()).names == ("up", "down")


def test_a_sequence_without_visible_positions_follows_the_prior():
    lost = torch.ones(1, 5, dtype=torch.bool)
    inferred = SubsampledBayes(choose_experts=True)(
        Team(two_segments()[0]), observe(torch.zeros(1, 5, dtype=torch.long), lost), seeded()
    )
    torch.testing.assert_close(inferred.field, torch.full((1, 5, 3), 1 / 3, dtype=torch.float64), rtol=0.02, atol=0.02)
    assert inferred.outcomes[0].cross_entropy is None


def test_the_local_gain_is_estimated_from_the_hidden_half(inferred_from_sample):
    experts, observation = two_segments()
    assert inferred_from_sample.outcomes[0].local_gain > 0.1
    assert SubsampledBayes(priors=global_prior)(Team(experts), observation, seeded()).outcomes[0].local_gain == 0
    assert SubsampledBayes()(Team(experts[:1]), observation, seeded()).outcomes[0].local_gain is None
    one_segment = observation[:, :2000]
    assert abs(SubsampledBayes()(Team(experts), one_segment, seeded()).outcomes[0].local_gain) < 0.01
    other_team = Team(experts[:1] + experts[2:])
    assert SubsampledBayes(choose_experts=True)(other_team, one_segment, seeded()).outcomes[0].local_gain == 0
