"""Exact evidence: Propositions 1 to 3 and Lemma 1, against finite differences and against each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import ConfusionChannel, MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.field import log_pool
from conservator.reference import BigramExpert, CategoricalExpert, EnumeratedEvidence, FactorisedEvidence, all_sequences
from conservator_studies.contextual import finite_differences

SIZE, LENGTH = 3, 4


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def random_channel(kind, generator):
    if kind == "mask":
        return MaskChannel(SIZE, 0.4)
    if kind == "replacement":
        return ReplacementChannel(SIZE, 0.4)
    return ConfusionChannel(torch.rand(SIZE, 5, generator=generator).softmax(-1))


def random_field(experts, generator):
    return torch.randn(LENGTH, experts, generator=generator, dtype=torch.float64).softmax(-1)


def contextual(kind, experts, count, generator):
    """The enumerated evidence of random bigram experts and random observations."""
    models = [BigramExpert.random(SIZE, 1.0, generator) for _ in range(experts)]
    sequences = all_sequences(SIZE, LENGTH)
    energies = torch.stack([model.energies(sequences).T for model in models])
    clean = torch.randint(SIZE, (count, LENGTH), generator=generator)
    observed = random_channel(kind, generator).corrupt(clean, generator)
    return EnumeratedEvidence(energies, sequences, observed)


def factorised(kind, experts, count, generator):
    """The factorised and the enumerated evidence of the same categorical experts and observations."""
    models = [CategoricalExpert(torch.randn(LENGTH, SIZE, generator=generator)) for _ in range(experts)]
    clean = torch.randint(SIZE, (count, LENGTH), generator=generator)
    observed = random_channel(kind, generator).corrupt(clean, generator)
    sequences = all_sequences(SIZE, LENGTH)
    tables = torch.stack([model.log_marginals for model in models])
    energies = tables[:, torch.arange(LENGTH), sequences].transpose(1, 2)
    return FactorisedEvidence(tables, observed), EnumeratedEvidence(energies, sequences, observed)


cases = given(
    kind=st.sampled_from(["mask", "replacement", "confusion"]),
    experts=st.integers(1, 3),
    count=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)


@cases
def test_the_sequence_gradient_is_that_of_the_evidence(kind, experts, count, seed):
    """Proposition 1 (seq_gradient), for contextual experts."""
    generator = seeded(seed)
    evidence = contextual(kind, experts, count, generator)
    field = random_field(experts, generator)
    _, gradient = evidence.value_and_gradient(field)
    torch.testing.assert_close(gradient, finite_differences(evidence, field), atol=1e-8, rtol=1e-6)


@cases
def test_the_local_gradient_is_that_of_the_evidence(kind, experts, count, seed):
    """Proposition 2 (gradient), for factorised experts."""
    generator = seeded(seed)
    evidence, _ = factorised(kind, experts, count, generator)
    field = random_field(experts, generator)
    _, gradient = evidence.value_and_gradient(field)
    torch.testing.assert_close(gradient, finite_differences(evidence, field), atol=1e-8, rtol=1e-6)


@cases
def test_factorised_experts_are_a_special_case_of_the_sequence_model(kind, experts, count, seed):
    """Section "Sequence-level composition": Q_lambda reduces to the local pool, and so do L and its gradient."""
    generator = seeded(seed)
    local, whole = factorised(kind, experts, count, generator)
    field = random_field(experts, generator)
    for ours, theirs in zip(local.value_and_gradient(field), whole.value_and_gradient(field), strict=True):
        torch.testing.assert_close(ours, theirs)


@cases
def test_the_surrogate_is_a_minorant_that_touches(kind, experts, count, seed):
    """Lemma 1 (minorant): L(b) - L(a) >= M(b | a) - M(a | a), and both have the same gradient at a."""
    generator = seeded(seed)
    evidence = contextual(kind, experts, count, generator)
    first, second = random_field(experts, generator), random_field(experts, generator)

    def surrogate(field):
        posterior, _ = evidence.log_posterior(first)
        posterior_mean = evidence._frequency @ posterior.exp()
        energy = torch.einsum("li,ils->s", field, evidence.energies)
        return posterior_mean @ energy - torch.logsumexp(energy, dim=0)

    value, gradient = evidence.value_and_gradient(first)
    gain = evidence.value_and_gradient(second)[0] - value
    assert gain >= surrogate(second) - surrogate(first) - 1e-12
    torch.testing.assert_close(torch.autograd.functional.jacobian(surrogate, first), gradient)


@given(experts=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_the_score_of_the_pool(experts, seed):
    """Lemma 2 (pool_score): d log pi(v) / d lambda_i = a_i(v) - E[a_i], with mean zero under the pool."""
    generator = seeded(seed)
    table = torch.randn(experts, 1, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    field = random_field(experts, generator)[:1]
    score = torch.autograd.functional.jacobian(lambda lam: log_pool(table, lam)[0], field)[:, 0]  # (V, m)
    pool = log_pool(table, field)[0].exp()
    torch.testing.assert_close(score, table[:, 0].T - pool @ table[:, 0].T)
    torch.testing.assert_close(pool @ score, torch.zeros(experts, dtype=torch.float64))


@cases
def test_the_evidence_is_a_difference_of_log_normalisers(kind, experts, count, seed):
    """Equation (dc)."""
    generator = seeded(seed)
    evidence = contextual(kind, experts, count, generator)
    field = random_field(experts, generator)
    energy = torch.einsum("li,ils->s", field, evidence.energies)
    clamped = torch.logsumexp(evidence._log_channel + energy, dim=1)
    expected = evidence._frequency @ clamped - torch.logsumexp(energy, dim=0)
    torch.testing.assert_close(evidence.value_and_gradient(field)[0], expected)


def test_a_masked_position_has_no_gradient(generator):
    """Proposition 3 (mask_degeneracy): in the factorised model, and only there."""
    channel = MaskChannel(SIZE, 0.4)
    observed = channel.observe(torch.tensor([[0, channel.mask_id, 2, channel.mask_id]]))
    table = torch.randn(2, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    _, gradient = FactorisedEvidence(table, observed).value_and_gradient(random_field(2, generator))
    torch.testing.assert_close(gradient[[1, 3]], torch.zeros(2, 2, dtype=torch.float64))
    assert (gradient[[0, 2]].abs() > 1e-3).all()

    models = [BigramExpert.random(SIZE, 1.0, generator) for _ in range(2)]
    sequences = all_sequences(SIZE, LENGTH)
    energies = torch.stack([model.energies(sequences).T for model in models])
    _, contextual = EnumeratedEvidence(energies, sequences, observed).value_and_gradient(random_field(2, generator))
    assert (contextual[[1, 3]].abs() > 1e-3).all()


def test_frequencies_represent_the_observations(generator):
    """Equation (evidence), computed observation by observation."""
    tables = torch.randn(2, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    channel = ReplacementChannel(SIZE, 0.3)
    observed = channel.corrupt(torch.randint(SIZE, (50, LENGTH), generator=generator), generator)
    field = random_field(2, generator)
    value, _ = FactorisedEvidence(tables, observed).value_and_gradient(field)
    by_hand = (observed.likelihood.table() + log_pool(tables, field)).logsumexp(-1).mean(0).sum()
    torch.testing.assert_close(value, by_hand)


def test_adding_a_constant_to_an_expert_has_no_effect(generator):
    """Expert-specific offsets cancel in the evidence correction; scales do not."""
    models = [BigramExpert.random(SIZE, 1.0, generator) for _ in range(2)]
    sequences = all_sequences(SIZE, LENGTH)
    energies = torch.stack([model.energies(sequences).T for model in models])
    observed = ReplacementChannel(SIZE, 0.3).observe(torch.tensor([[0, 1, 2, 0]]))
    field = random_field(2, generator)
    gradients = [
        EnumeratedEvidence(table, sequences, observed).value_and_gradient(field)[1]
        for table in (energies, energies + torch.tensor([5.0, -2.0])[:, None, None], 2 * energies)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])
    assert (gradients[0] - gradients[2]).abs().max() > 0.01


def test_a_single_observation_is_not_counted(generator):
    """N = 1 and a larger vocabulary: the evidence is the same without frequencies of symbols."""
    tables = torch.randn(2, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    observed = ReplacementChannel(SIZE, 0.3).observe(torch.tensor([0, 2, 1, 1]))
    repeated = ReplacementChannel(SIZE, 0.3).observe(torch.tensor([0, 2, 1, 1]).expand(SIZE + 1, -1))
    field = random_field(2, generator)
    once, often = (FactorisedEvidence(tables, y).value_and_gradient(field) for y in (observed, repeated))
    torch.testing.assert_close(once, often)


def test_experts_in_float32_are_supported(generator):
    """The type that learned experts return."""
    tables = torch.randn(2, LENGTH, SIZE, generator=generator).log_softmax(-1)
    observed = MaskChannel(SIZE, 0.3).observe(torch.tensor([[0, 1, 3, 2]]))
    field = random_field(2, generator)
    assert log_pool(tables, field).dtype == torch.float32
    value, gradient = FactorisedEvidence(tables, observed).value_and_gradient(field)
    expected = FactorisedEvidence(tables.double(), observed).value_and_gradient(field)
    torch.testing.assert_close((value, gradient), expected)


@pytest.mark.parametrize(
    ("tokens", "change", "message"),
    [
        (torch.zeros(0, LENGTH, dtype=torch.long), 0.0, "N >= 1"),
        (torch.zeros(2, LENGTH + 1, dtype=torch.long), 0.0, "5 positions, the experts 4"),
        (torch.zeros(2, 2, LENGTH, dtype=torch.long), 0.0, "shape"),
        (torch.zeros(2, LENGTH, dtype=torch.long), -torch.inf, "finite"),
    ],
)
def test_observations_and_experts_must_fit(tokens, change, message):
    observed = ReplacementChannel(SIZE, 0.3).observe(tokens)
    sequences = all_sequences(SIZE, LENGTH)
    with pytest.raises(ConservatorError, match=message):
        FactorisedEvidence(torch.zeros(2, LENGTH, SIZE) + change, observed)
    with pytest.raises(ConservatorError, match=message):
        EnumeratedEvidence(torch.zeros(2, LENGTH, len(sequences)) + change, sequences, observed)


def test_energies_must_fit_the_sequences():
    observed = ReplacementChannel(SIZE, 0.3).observe(torch.zeros(1, LENGTH, dtype=torch.long))
    sequences = all_sequences(SIZE, LENGTH)
    with pytest.raises(ConservatorError, match="must have the shapes"):
        EnumeratedEvidence(torch.zeros(2, LENGTH, len(sequences) - 1), sequences, observed)


def test_channel_and_experts_must_have_one_vocabulary():
    observed = ReplacementChannel(SIZE + 1, 0.3).observe(torch.zeros(1, LENGTH, dtype=torch.long))
    with pytest.raises(ConservatorError, match="4 tokens, the experts 3"):
        FactorisedEvidence(torch.zeros(2, LENGTH, SIZE), observed)


@pytest.mark.parametrize("weights", [[1.0, 0.0], [0.0, 1.0]])
def test_a_vertex_of_the_pool_is_one_expert(weights, generator):
    tables = torch.randn(2, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    field = torch.tensor(weights, dtype=torch.float64).expand(LENGTH, 2)
    torch.testing.assert_close(log_pool(tables, field), tables[weights.index(1.0)])


def test_a_pool_broadcasts_over_a_batch(generator):
    tables = torch.randn(2, 7, LENGTH, SIZE, generator=generator, dtype=torch.float64).log_softmax(-1)
    field = random_field(2, generator)
    pooled = log_pool(tables, field)
    assert pooled.shape == (7, LENGTH, SIZE)
    torch.testing.assert_close(pooled[3], log_pool(tables[:, 3], field))
