"""Decoding from noise: visible tokens are kept, the source is shared, and the distribution after many steps."""

import pytest
import torch

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context
from conservator.experts.uniform import filled
from conservator.field import Composition
from conservator.reference import decode_uniform, sample_uniform
from support.uniform_experts import LENGTH, SEQUENCES, SIZE, random_expert, uniform_table

ROWS = 150


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def observed(*tokens, rows=1):
    return MaskChannel(SIZE, 0.5).observe(torch.tensor(tokens).expand(rows, -1))


def alone(rows=1, experts=1):
    return Composition.of_field(torch.full((rows, LENGTH, experts), 1 / experts, dtype=torch.float64))


def sample_frequencies(expert, observation, steps, start, sources=20):
    """(V, V, V) relative frequency of each sequence, over several sources."""
    counts = torch.zeros(SIZE, SIZE, SIZE, dtype=torch.float64)
    generator = seeded()
    for seed in range(sources):
        drawn = sample_uniform([expert], observation, alone(ROWS), generator, steps=steps, start=start, seed=seed)
        counts.index_put_(tuple(drawn.T), torch.ones(ROWS, dtype=torch.float64), accumulate=True)
    return counts / counts.sum()


def distance(first, second):
    """The total variation distance."""
    return float((first - second).abs().sum()) / 2


def test_without_observations_many_steps_draw_from_the_expert():
    expert, nothing = random_expert(1, 2.0), observed(SIZE, SIZE, SIZE, rows=ROWS)
    first, many = (distance(sample_frequencies(expert, nothing, n, 0.0), expert.log_joint.exp()) for n in (1, 64))
    assert first > 0.3  # positions are drawn independently
    assert many < 0.08


def test_with_evidence_many_steps_approach_the_posterior():
    """The limit is not exact: the expert does not condition on visible tokens being correct."""
    expert, evidence = random_expert(2, 2.0), observed(1, SIZE, SIZE, rows=ROWS)
    posterior = expert.log_joint.exp().clone()
    posterior[[0, 2]] = 0
    posterior /= posterior.sum()
    first, many = (distance(sample_frequencies(expert, evidence, n, 1 / 3), posterior) for n in (1, 32))
    assert first > 0.25
    assert many < 0.12


def test_one_step_takes_the_most_likely_token_of_the_pool_at_t_dec():
    experts, observation = [random_expert(0), random_expert(1)], observed(2, SIZE, SIZE)
    state = filled(Context(observation.readable, observation.lost), SIZE, 8)
    pool = torch.stack([uniform_table(expert, state, 0.9)[0] for expert in experts]).mean(0)
    probs = torch.softmax(pool, dim=-1)
    decoded = decode_uniform(experts, observation, alone(experts=2), seeded(), seed=8)
    assert decoded.tokens[0].tolist() == [2, *probs[1:].argmax(-1).tolist()]
    assert decoded.confidence[0].tolist() == pytest.approx([1, *probs[1:].max(-1).values.tolist()], abs=1e-5)
    assert decoded.cost.evaluations == 2


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_visible_tokens_are_kept_after_every_step(steps):
    observation = MaskChannel(SIZE, 0.5).corrupt(SEQUENCES, seeded())
    decoded = decode_uniform([random_expert(0, 3.0)], observation, alone(27), seeded(), steps=steps)
    drawn = sample_uniform([random_expert(0, 3.0)], observation, alone(27), seeded(), steps=steps, start=0.2)
    for tokens in (decoded.tokens, drawn):
        assert torch.equal(tokens[~observation.lost], SEQUENCES[~observation.lost])
        assert (tokens < SIZE).all()
    assert (decoded.confidence[~observation.lost] == 1).all()


def test_the_same_seed_and_generator_give_the_same_tokens():
    observation = MaskChannel(SIZE, 0.7).corrupt(SEQUENCES, seeded())
    first, same = (decode_uniform([random_expert(0)], observation, alone(27), seeded(3), steps=4) for _ in range(2))
    assert torch.equal(first.tokens, same.tokens)


@pytest.mark.parametrize(("steps", "start"), [(0, 0.5), (1, 1.0), (3, -0.1)])
def test_invalid_times_are_refused(steps, start):
    with pytest.raises(ConservatorError, match="steps must be at least 1"):
        decode_uniform([random_expert(0)], observed(0, 1, SIZE), alone(), seeded(), steps=steps, start=start)
