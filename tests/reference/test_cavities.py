"""Evidence from cavities: exact for independent positions, one pass for each expert, and fields of domain segments."""

import math

import torch

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.experts import Context, Team
from conservator.experts.uniform import LeaveOneOut, cavity, filled
from conservator.field import log_pool
from conservator.reference import Cavities, CompositeEvidence, FactorisedEvidence
from support.uniform_experts import LENGTH, SEQUENCES, SIZE, IndependentTokens, random_expert, uniform_table


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_independent_tokens_have_their_exact_evidence():
    table = torch.randn(2, 5, generator=seeded())
    experts = [IndependentTokens(rows, f"{number}") for number, rows in enumerate(table)]
    team = Team([LeaveOneOut(expert) for expert in experts])
    for channel in (MaskChannel(5, 0.3), ReplacementChannel(5, 0.3)):
        observation = channel.corrupt(torch.randint(5, (40,), generator=seeded(1)), seeded(2))
        with team.meter.measure() as spent:
            result = CompositeEvidence.by_cavity(team, observation)
        assert spent.cost.evaluations == 2  # one pass of each expert
        log_probs = torch.stack([expert.log_probs.expand(40, -1) for expert in experts])
        field = torch.rand(40, 2, generator=seeded()).double().softmax(-1)
        value, gradient = result.value_and_gradient(field)
        expected, expected_gradient = FactorisedEvidence(log_probs, observation).value_and_gradient(field)
        lost = observation.lost.sum() * math.log(0.3)
        torch.testing.assert_close(value + lost, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_the_evidence_is_that_of_leave_one_out_conditionals():
    experts = [random_expert(seed, 1.5) for seed in range(2)]
    observation = MaskChannel(SIZE, 0.3).observe(torch.tensor([2, SIZE, 0]))
    team = Team([LeaveOneOut(expert, seed=4) for expert in experts])
    field = torch.tensor([[0.2, 0.8]]).double().expand(LENGTH, -1)
    value, _ = CompositeEvidence.by_cavity(team, observation).value_and_gradient(field)
    state = filled(Context(observation.readable[None], observation.lost[None]), SIZE, 4)
    kappa = torch.full((LENGTH,), 2 / 3)
    log_probs = torch.stack([cavity(uniform_table(expert, state, 2 / 3)[0], state[0], kappa) for expert in experts])
    pool = log_pool(log_probs, field)
    expected = pool[0, 2] + pool[2, 0] + 2 * math.log(0.7)
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5)
    assert state[0, [0, 2]].tolist() == SEQUENCES[18].tolist()[::2]


def test_the_field_of_two_domain_segments_is_inferred_in_one_pass():
    logits = torch.tensor([[3.0, 3.0, 0.0, 0.0], [0.0, 0.0, 3.0, 3.0]])
    experts = [IndependentTokens(rows, name) for rows, name in zip(logits, ("low", "high"), strict=True)]
    tokens = torch.randint(2, (3, 200), generator=seeded())
    tokens[:, 80:] += 2
    observation = MaskChannel(4, 0.3).corrupt(tokens, seeded(1))
    team = Team([LeaveOneOut(expert) for expert in experts])
    result = Cavities()(team, observation, seeded())
    assert result.cost.evaluations == 6
    labels = (torch.arange(200) >= 80).long().expand(3, -1)
    assert (result.regions.argmax(-1) == labels).double().mean() > 0.97
    torch.testing.assert_close(result.field.sum(-1), torch.ones(3, 200).double())
