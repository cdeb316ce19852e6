"""The paper's Algorithm 1 on experts with known distributions."""

from dataclasses import replace

import pytest
import torch

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.reference import (
    PRESETS,
    BigramExpert,
    Particles,
    PerColumn,
    all_sequences,
    draw_particles,
    expected_denoising_score,
)
from conservator.reference.engines.particles import estimate_gradient
from support.tables import table_of

SIZE, LENGTH = 3, 4
EXPERTS = [BigramExpert.random(SIZE, 1.5, torch.Generator().manual_seed(seed), f"{seed}") for seed in (0, 1)]
TEAM = Team(EXPERTS)
CHANNEL = MaskChannel(SIZE, 0.3)
OBSERVED = CHANNEL.observe(torch.tensor([1, SIZE, 0, 2]))
UNIFORM = torch.full((LENGTH, 2), 0.5, dtype=torch.float64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sampler_distribution(lam, tokens, hidden, steps):
    """The exact distribution of the sampler over all sequences, by enumeration of its branches."""
    sequences = all_sequences(SIZE, LENGTH)
    index = {tuple(row): position for position, row in enumerate(sequences.tolist())}
    states = {(tuple(tokens.tolist()), tuple(hidden.tolist())): 1.0}
    for step in range(steps):
        following = {}
        reveal = 1 / (steps - step)
        for (values, lost), weight in states.items():
            log_probs = [table_of(e, torch.tensor([values]), torch.tensor([lost]))[0] for e in EXPERTS]
            pool = torch.softmax(sum(lam[:, [i]] * log_probs[i] for i in range(2)), dim=-1)
            branches = [((), (), 1.0)]
            for position in range(LENGTH):
                grown = []
                for decided, still_hidden, weight_so_far in branches:
                    if not lost[position]:
                        grown.append(((*decided, values[position]), (*still_hidden, False), weight_so_far))
                        continue
                    if reveal < 1:
                        grown.append(((*decided, 0), (*still_hidden, True), weight_so_far * (1 - reveal)))
                    for token in range(SIZE):
                        probability = weight_so_far * reveal * float(pool[position, token])
                        grown.append(((*decided, token), (*still_hidden, False), probability))
                branches = grown
            for decided, still_hidden, weight_so_far in branches:
                following[decided, still_hidden] = following.get((decided, still_hidden), 0.0) + weight * weight_so_far
        states = following
    distribution = torch.zeros(len(sequences), dtype=torch.float64)
    for (values, _), weight in states.items():
        distribution[index[values]] += weight
    return sequences, distribution


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_particles_follow_the_distribution_of_the_sampler(steps):
    count = 20_000
    for hidden in (OBSERVED.lost, torch.ones(LENGTH, dtype=torch.bool)):
        tokens = OBSERVED.tokens.masked_fill(hidden, 0)
        sequences, distribution = sampler_distribution(UNIFORM, tokens, hidden, steps)
        assert distribution.sum() == pytest.approx(1)
        drawn = draw_particles(TEAM, UNIFORM, tokens.expand(count, -1), hidden.expand(count, -1), steps, seeded())
        frequencies = (drawn[:, None] == sequences).all(-1).double().mean(0)
        assert (frequencies - distribution).abs().max() < 5 * (0.25 / count) ** 0.5
        assert torch.equal(drawn[:, ~hidden], tokens[~hidden].expand(count, -1))


def exact_gradient(settings):
    """The mean of the estimate: denoising scores averaged over all maskings, under the sampler's distribution."""
    sequences = all_sequences(SIZE, LENGTH)
    scores = torch.stack([expected_denoising_score(e, sequences, schedule_weight=False) for e in EXPERTS], dim=-1)
    everything = torch.ones(LENGTH, dtype=torch.bool)
    visible_tokens = OBSERVED.tokens.masked_fill(OBSERVED.lost, 0)
    _, posterior = sampler_distribution(UNIFORM, visible_tokens, OBSERVED.lost, settings.steps)
    _, prior = sampler_distribution(UNIFORM, torch.zeros(LENGTH, dtype=torch.long), everything, settings.steps)
    distribution = prior - posterior if settings.prior_term else -posterior
    return torch.einsum("x,xli->li", distribution, scores)


@pytest.mark.parametrize("prior_term", [True, False])
def test_the_gradient_has_no_bias_and_its_variance_falls_with_particles(prior_term):
    settings = Particles(steps=2, samples=2, prior_term=prior_term)
    expected = exact_gradient(settings)
    spread = []
    for particles in (8, 128):
        chosen = replace(settings, particles=particles)
        drawn = torch.stack([estimate_gradient(TEAM, UNIFORM, OBSERVED, chosen, seeded(n)) for n in range(60)])
        error = drawn.std(0) / 60**0.5
        assert ((drawn.mean(0) - expected).abs() < 4.5 * error + 1e-3).all()
        spread.append(drawn.var(0).mean())
    assert spread[0] / spread[1] == pytest.approx(16, rel=0.4)


def test_a_run_counts_its_evaluations_and_follows_from_the_seed():
    calls = []

    class Counted(BigramExpert):
        def predict(self, context, at):
            calls.append(len(context.tokens))
            return super().predict(context, at)

    counted = Team([Counted(expert.initial, expert.transition, expert.spec.name) for expert in EXPERTS])
    settings = Particles(3, 4, 2, steps=3)
    first = settings(counted, OBSERVED[None], seeded())
    assert first.cost.evaluations == sum(calls) == 3 * 2 * 2 * 4 * (3 + 2)
    torch.testing.assert_close(first.field.sum(-1), torch.ones(1, LENGTH, dtype=torch.float64))
    assert torch.equal(first.field, settings(TEAM, OBSERVED[None], seeded()).field)
    assert not torch.equal(first.field, settings(TEAM, OBSERVED[None], seeded(1)).field)
    calls.clear()
    without = replace(settings, prior_term=False)(counted, OBSERVED[None], seeded())
    assert without.cost.evaluations == sum(calls) == first.cost.evaluations // 2


def test_a_shared_weight_is_the_same_everywhere():
    settings = Particles(3, 4, 2, steps=3, shared=True)
    field = settings(TEAM, OBSERVED[None], seeded()).field[0]
    assert torch.equal(field, field[:1].expand_as(field))
    assert (field != 0.5).any()


def test_a_step_is_the_papers_update():
    settings = Particles(1, 6, 2, steps=2, eta=0.7, smoother=PerColumn(0.0))
    field = settings(TEAM, OBSERVED[None], seeded()).field[0]
    gradient = estimate_gradient(TEAM, UNIFORM, OBSERVED, settings, seeded())
    expected = 0.5 * (0.7 * gradient).exp()
    torch.testing.assert_close(field, expected / expected.sum(1, keepdim=True))


def test_the_presets_are_those_of_the_paper():
    table = {"byte": (30, 48, 4, 1.0, 0.6), "1.3B": (12, 24, 2, 0.5, 0.4), "7B": (6, 8, 2, 0.5, 0.2)}
    table["natural"] = (12, 24, 2, 0.5, 0.3)
    for name, row in table.items():
        preset = PRESETS[name]
        assert (preset.iterations, preset.particles, preset.samples, preset.eta, preset.smoother.tau) == row


def test_unsupported_input_is_refused():
    replaced = ReplacementChannel(SIZE, 0.2).observe(torch.tensor([[0, 1]]))
    with pytest.raises(ConservatorError, match="does not support uncertain"):
        PRESETS["byte"](TEAM, replaced, seeded())
    with pytest.raises(ConservatorError, match="must have the shape"):
        PRESETS["byte"](TEAM, OBSERVED, seeded())
    long = CHANNEL.observe(torch.zeros(1, TEAM.context + 1, dtype=torch.long))
    with pytest.raises(ConservatorError, match="a sequence may have at most"):
        PRESETS["byte"](TEAM, long, seeded())
