"""Gates: the mixture against its definition, the table against its optimality conditions, the engine."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.decoders import ContextPolicy
from conservator.errors import ConservatorError
from conservator.experts import Memory, Team
from conservator.experts.memory.expert import GATE_PRIOR
from conservator.experts.word_ngram.expert import GATE_PRIOR as WORDS_PRIOR
from conservator.field import Bayes, Gate, choose_experts, fit_gate
from conservator.field.engines.fit_gates import CONFIG as SAMPLE
from conservator.field.engines.fit_gates import count_spans, hide_like_damage
from conservator.field.gate import (
    CONFIG,
    GATE_WEIGHTS,
    INVERSE_TEMPERATURES,
    SHIFTS,
    classes_of,
    confidence_nats,
    fit_inverse_temperature,
    fit_prior,
    prior_table,
)
from conservator.reference import decode_one_step
from conservator.vocabularies import BYTES
from support.fakes import FakeExpert, TextExpert

CLASSES, STRENGTH = CONFIG.confidence_classes, CONFIG.prior_strength
VERSE = "the quick brown fox jumps over the lazy dog; "
CODE = "x = [y for y in z if y]\n"


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(count, size, seed, sharp=3.0):
    return torch.log_softmax(sharp * torch.randn(count, size, generator=seeded(seed)), dim=-1)


def observe(text, rate=0.1, seed=0):
    tokens = torch.tensor(list(text.encode()))
    tokens[torch.rand(len(tokens), generator=seeded(seed)) < rate] = BYTES.mask
    return MaskChannel(BYTES.size, 0.5).observe(tokens[None])


def test_the_composed_distribution_is_the_mixture_of_pools():
    composed, memory = rows(6, 5, 0), rows(6, 5, 1)
    table = np.random.default_rng(0).dirichlet(np.ones(len(GATE_WEIGHTS)), 2 * CLASSES)
    expected = torch.zeros(6, 5)
    for position in range(6):
        nats = -np.log(1 - float(memory[position].exp().max()))
        step = 0 if nats < CONFIG.uninformative_nats else 1 + min(int(nats / 0.7), CLASSES - 2)
        confident = -np.log(1 - float(composed[position].exp().max())) >= CONFIG.confident_nats
        for weight, probability in zip(GATE_WEIGHTS, table[step + CLASSES * int(confident)], strict=True):
            pool = composed[position].exp() ** (1 - weight) * memory[position].exp() ** weight
            expected[position] += probability * pool / pool.sum()
    gate = Gate(table)
    torch.testing.assert_close(gate.log_probs(composed, memory).exp(), expected)
    weight = torch.from_numpy(table @ GATE_WEIGHTS)[classes_of(composed, memory)]
    torch.testing.assert_close(gate.weight(composed, memory), weight)


def test_confidence_in_nats():
    probs = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    nats = confidence_nats(probs.clamp_min(1e-30).log())
    np.testing.assert_allclose(nats[:2], [-np.log(0.75), np.log(2)], rtol=1e-6)
    assert torch.isfinite(nats).all()


@pytest.mark.parametrize("gate_prior", [GATE_PRIOR, WORDS_PRIOR])
@given(st.integers(0, 2**32 - 1), st.integers(0, 300))
@settings(max_examples=30)
def test_the_table_meets_its_optimality_conditions(gate_prior, seed, count):
    """At the maximum of a concave objective on the simplex, the gradient is the same for all weights."""
    rng = np.random.default_rng(seed)
    evidence, classes = rng.normal(0, 2, (count, len(GATE_WEIGHTS))), rng.integers(0, 2 * CLASSES, count)
    table, likelihood = fit_gate(evidence, classes, gate_prior).table, np.exp(evidence)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    gradient = STRENGTH * fit_prior(likelihood, classes, gate_prior) / table
    mixed = (table[classes] * likelihood).sum(axis=1, keepdims=True)
    np.add.at(gradient, classes, likelihood / mixed)
    total = STRENGTH + np.bincount(classes, minlength=2 * CLASSES)
    assert np.abs(table * (gradient / total[:, None] - 1)).max() < 1e-3


def test_without_evidence_the_table_is_the_prior():
    for gate_prior in (GATE_PRIOR, WORDS_PRIOR):
        table = fit_gate(np.zeros((0, len(GATE_WEIGHTS))), np.zeros(0, dtype=np.int64), gate_prior).table
        np.testing.assert_allclose(table, prior_table(gate_prior))
    means = prior_table(GATE_PRIOR) @ GATE_WEIGHTS
    assert (np.diff(means[:CLASSES]) > 0).all()
    assert (means[CLASSES + 1 :] < means[1:CLASSES]).all()


@pytest.mark.parametrize("right", [True, False])
def test_an_accurate_memory_gains_weight_and_a_wrong_one_loses_it(right):
    evidence = np.tile(np.linspace(-4, 0, len(GATE_WEIGHTS)) * (1 if right else -1), (200, 1))
    mean_weights = fit_gate(evidence, np.full(200, 5), GATE_PRIOR).table @ GATE_WEIGHTS
    prior_weights = prior_table(GATE_PRIOR) @ GATE_WEIGHTS
    assert (mean_weights[5] > 0.9) if right else (mean_weights[5] < 0.05)
    np.testing.assert_allclose(np.delete(mean_weights, 5), np.delete(prior_weights, 5))


def test_a_shift_changes_the_logits_of_all_informative_means_equally():
    def logits(shift):
        means = (prior_table(WORDS_PRIOR, shift) @ GATE_WEIGHTS).reshape(2, CLASSES)
        return np.log(means / (1 - means))

    changes = logits(0.75) - logits(0.0)
    np.testing.assert_allclose(changes[:, 0], 0, atol=1e-12)
    np.testing.assert_allclose(changes[:, 1:], 0.75)


@pytest.mark.parametrize("right", [True, False])
def test_evidence_in_one_class_shifts_the_prior_means_of_the_others(right):
    evidence = np.tile(np.linspace(-4, 0, len(GATE_WEIGHTS)) * (1 if right else -1), (200, 1))
    classes = np.full(200, 5)
    change = (fit_gate(evidence, classes, WORDS_PRIOR).table - prior_table(WORDS_PRIOR)) @ GATE_WEIGHTS
    informative = np.delete(change, [0, CLASSES])
    assert (informative > 0).all() if right else (informative < 0).all()
    best = fit_prior(np.exp(evidence), classes, WORDS_PRIOR)
    scores = [
        np.log(prior_table(WORDS_PRIOR, shift)[5] @ np.exp(evidence[0])) * 200
        - 0.5 * (shift / WORDS_PRIOR.shift_std) ** 2
        for shift in SHIFTS.tolist()
    ]
    np.testing.assert_array_equal(best, prior_table(WORDS_PRIOR, SHIFTS[int(np.argmax(scores))]))


def test_longer_texts_have_more_evidence():
    assert count_spans(1000) == count_spans(3 * SAMPLE.period_positions) == SAMPLE.min_spans
    assert count_spans(5 * SAMPLE.period_positions + 1) == 5
    assert count_spans(1000 * SAMPLE.period_positions) == SAMPLE.max_spans


def test_bayes_infers_the_other_experts_as_without_a_memory():
    experts, observation = (
        [TextExpert(VERSE, name="verse"), TextExpert(CODE, name="code")],
        observe(VERSE * 4 + CODE * 4),
    )
    alone = Bayes()(Team(experts), observation, seeded())
    team = Team([*experts, Memory().condition(observation)])
    inferred = Bayes()(team, observation, seeded())
    assert torch.equal(inferred.field[..., :2], alone.field)
    assert (inferred.field[..., 2] == 0).all()
    assert len(inferred.composition.gates) == 1
    assert not alone.composition.gates
    predictions = torch.stack([rows(3, 256, seed) for seed in range(3)])
    where = torch.zeros(3, dtype=torch.long), torch.tensor([1, 5, 100])
    others = alone.composition.log_probs(predictions[:2], *where)
    expected = inferred.composition.gates[0].log_probs(others, predictions[2])
    torch.testing.assert_close(inferred.composition.log_probs(predictions, *where), expected)


def test_a_memory_alone_has_all_of_the_weight():
    observation = observe(VERSE * 4)
    inferred = Bayes()(Team([Memory().condition(observation)]), observation, seeded())
    assert (inferred.field == 1).all()
    assert inferred.cost.evaluations == 0


def test_a_memory_is_the_last_expert_and_counts_no_network_evaluations():
    observation = observe(VERSE)
    memory = Memory().condition(observation)
    team = Team([FakeExpert(), memory])
    assert team.without_gated().names == ("fake0",)
    list(team.read(observation.tokens, observation.lost[:, None], observation.lost[:, None]))
    assert team.meter.evaluations == team.experts[0].evaluations > 0
    with pytest.raises(ConservatorError, match="must be its last members"):
        Team([memory, FakeExpert()])


def test_experts_without_weight_are_not_chosen():
    experts = [FakeExpert(3), TextExpert(VERSE * 4, name="verse"), FakeExpert(4), TextExpert(CODE * 8, name="code")]
    observation = observe(VERSE * 16 + CODE * 30)
    team = Team(experts)
    chosen = choose_experts(team, observation, seeded())
    assert chosen.names == ("verse", "code")
    assert chosen.meter is team.meter
    assert choose_experts(Team(experts[:1]), observation, seeded()).names == ("fake3",)


def test_choosing_costs_one_evaluation_per_window_and_expert():
    experts = [TextExpert(VERSE, 64, name="verse"), TextExpert(CODE, 64, name="code")]
    observation = observe("a" * 20_000, rate=0.01)
    team = Team(experts)
    choose_experts(team, observation, seeded())
    windows = 16 * (512 // 48 + 3)  # spans, and the windows that overlap each
    assert team.meter.evaluations <= 2 * windows


def test_a_document_without_visible_text_gets_all_experts():
    lost = MaskChannel(BYTES.size, 0.5).observe(torch.full((1, 9), BYTES.mask))
    assert len(choose_experts(Team([FakeExpert(0), FakeExpert(1)]), lost, seeded())) == 2


def test_a_memory_reads_text_that_is_hidden_from_other_experts():
    experts, observation = (
        [TextExpert(VERSE, name="verse"), TextExpert(CODE, name="code")],
        observe(VERSE * 4 + CODE * 4),
    )
    team = Team([*experts, Memory().condition(observation)])
    composition = Bayes()(team, observation, seeded()).composition
    hidden = ContextPolicy(domain_threshold=0.2).hidden_from(composition)
    assert hidden.shape == (*observation.tokens.shape, 3)
    assert hidden[..., :2].any()
    assert not hidden[..., 2].any()
    decoded = decode_one_step(team, observation, composition, ContextPolicy(domain_threshold=0.2))
    assert (decoded.tokens[~observation.lost] == observation.tokens[~observation.lost]).all()


def test_an_overconfident_distribution_is_flattened():
    """Tokens drawn from a distribution, and predicted by a sharper one: the inverse temperature reverts it."""
    log_probs = rows(4000, 6, 3, sharp=1.0)
    tokens = torch.multinomial(log_probs.exp(), 1, generator=seeded(4))
    sharp = torch.log_softmax(1.6 * log_probs, dim=-1)
    powers = INVERSE_TEMPERATURES
    evidence = np.stack(
        [torch.log_softmax(power * sharp, dim=-1).gather(1, tokens)[:, 0].double().numpy() for power in powers], 1
    )
    fitted = fit_inverse_temperature(evidence)
    assert abs(fitted - 1 / 1.6) <= 0.1
    posterior = evidence.sum(0) - 0.5 * (np.log(powers) / CONFIG.log_temperature_std) ** 2
    assert posterior[powers.tolist().index(fitted)] == posterior.max()
    assert fit_inverse_temperature(np.zeros((0, len(powers)))) == 1.0
    composed, memory = rows(6, 5, 0), rows(6, 5, 1)
    plain = Gate(prior_table(GATE_PRIOR)).log_probs(composed, memory)
    expected = torch.log_softmax(fitted * plain, dim=-1)
    torch.testing.assert_close(Gate(prior_table(GATE_PRIOR), fitted).log_probs(composed, memory), expected)


def test_positions_are_hidden_in_runs_like_the_damage():
    tokens = torch.zeros(1, 900, dtype=torch.long)
    for start in (100, 400, 650):
        tokens[0, start : start + 8] = BYTES.mask
    observation = MaskChannel(BYTES.size, 0.5).observe(tokens)
    sample = ~observation.lost & (torch.arange(900) < 600)
    hidden = hide_like_damage(observation, sample, seeded())
    assert not (hidden & ~sample).any()
    assert sample.sum() / SAMPLE.hidden_period <= hidden.sum() < sample.sum() / 3
    edges = torch.diff(hidden[0].int()).abs().sum() / 2
    assert hidden.sum() / edges > 5  # mostly runs of eight
    none_lost = MaskChannel(BYTES.size, 0.5).observe(torch.zeros(1, 600, dtype=torch.long))
    assert hide_like_damage(none_lost, torch.ones(1, 600, dtype=torch.bool), seeded()).sum() == 100
