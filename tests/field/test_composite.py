"""Composite evidence: folds, windows, closed forms, its gradient and its maximum."""

import subprocess
import sys

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import (
    BigramExpert,
    CategoricalExpert,
    ConservatorError,
    FactorisedEvidence,
    MaskChannel,
    ReplacementChannel,
    infer_field,
)
from conservator.experts import all_sequences
from conservator.field.composite import (
    CompositeEvidence,
    cut_into_windows,
    gather_evidence,
    pool_of,
    read,
)
from conservator.field.convex import maximise, variation
from conservator.field.cost import Cost
from conservator.field.folds import Schedule
from conservator.field.lattice import simplex_lattice
from conservator.field.pool import log_pool

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2, scale=1.5):
    return [BigramExpert.random(SIZE, scale, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(length, seed=0, rate=0.3, rows=None):
    shape = (length,) if rows is None else (rows, length)
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, shape, generator=seeded(seed)), seeded(seed + 1))


@given(
    length=st.integers(1, 40),
    folds=st.integers(1, 7),
    repeats=st.integers(1, 3),
    rate=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_every_visible_position_is_hidden_once_a_repeat(length, folds, repeats, rate, seed):
    visible = torch.rand(3, length, generator=seeded(seed)) >= rate
    schedule = Schedule(folds, repeats)
    patterns = schedule.draw(visible, seeded(seed))
    assert patterns.shape == (3, schedule.patterns, length)
    for part in patterns.split(folds, dim=1):
        assert torch.equal(part.sum(1), visible.long())
        sizes = part.sum(-1)
        assert (sizes.max(1).values - sizes.min(1).values <= 1).all()


@given(length=st.integers(1, 300), context=st.integers(8, 64))
def test_windows_cover_every_position_once(length, context):
    windows = cut_into_windows(length, context)
    scored = [place for window in windows for place in range(window.inner_start, window.inner_stop)]
    assert scored == list(range(length))
    for window in windows:
        assert window.stop - window.start == min(length, context)
        assert 0 <= window.start <= window.inner_start
        assert window.inner_stop <= window.stop <= length
        margin = context // 8
        assert window.start == 0 or window.inner_start - window.start >= margin
        assert window.stop == length or window.stop - window.inner_stop >= margin


def test_what_is_heard_is_the_conditional_with_the_fold_hidden():
    experts, observation = bigrams(), masked(9, rows=2)
    patterns = Schedule(3).draw(~observation.hidden, seeded())
    concealed = patterns | observation.hidden[:, None]
    cost = Cost()
    heard = list(read(experts, observation.tokens, concealed, patterns, 9, cost))
    assert cost.evaluations == 2 * 3 * 2
    assert sum(len(said.position) for said in heard) == int((~observation.hidden).sum())
    for said in heard:
        for place, (sequence, position) in enumerate(zip(said.sequence.tolist(), said.position.tolist(), strict=True)):
            pattern = int(patterns[sequence, :, position].nonzero())
            for number, expert in enumerate(experts):
                alone = expert.log_probs(observation.tokens[sequence][None], concealed[sequence, pattern][None])
                torch.testing.assert_close(said.log_probs[number, place], alone[0, position].float())


def test_a_chunk_size_changes_nothing(monkeypatch):
    experts, observation, weights = bigrams(), masked(9, rows=5), torch.tensor(simplex_lattice(2, 2))
    whole = gather_evidence(experts, observation, Schedule(3), seeded(), weights).emissions
    monkeypatch.setattr("conservator.field.composite.CHUNK", 1)
    pieces = gather_evidence(experts, observation, Schedule(3), seeded(), weights).emissions
    torch.testing.assert_close(whole, pieces)


@pytest.mark.parametrize("channel", [MaskChannel(SIZE, 0.3), ReplacementChannel(SIZE, 0.3)])
def test_factorised_experts_have_their_exact_evidence(channel):
    """What a position is says nothing of another: hiding folds changes nothing, and C is the paper's L."""
    table = torch.randn(3, 12, SIZE, generator=seeded())
    experts = [CategoricalExpert(rows, f"{number}") for number, rows in enumerate(table)]
    observation = channel.corrupt(torch.randint(SIZE, (12,), generator=seeded(1)), seeded(2))
    log_probs = torch.stack([expert.log_marginals for expert in experts])
    exact = FactorisedEvidence(log_probs, observation)
    found, cost = CompositeEvidence.gather(experts, observation, Schedule(4, 2), seeded())
    assert cost.evaluations == 3 * 8
    lost = observation.hidden.sum() * np.log(0.3)  # a hidden position says that it was hidden, whatever the field
    for field in (torch.full((12, 3), 1 / 3).double(), torch.rand(12, 3, generator=seeded()).double().softmax(-1)):
        value, gradient = found.value_and_gradient(field)
        expected, expected_gradient = exact.value_and_gradient(field)
        torch.testing.assert_close(value + lost, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)
    fields = [infer_field(evidence, tolerance=1e-5).field[~observation.hidden] for evidence in (exact, found)]
    torch.testing.assert_close(*fields, rtol=0, atol=0.02)


def test_lattice_scores_are_the_evidence_at_constant_fields():
    experts, observation, weights = bigrams(3), masked(10), torch.tensor(simplex_lattice(3, 2))
    whole = observation.channel.observe(observation.tokens[None])
    emissions = gather_evidence(experts, whole, Schedule(3, 2), seeded(), weights).emissions
    evidence, _ = CompositeEvidence.gather(experts, observation, Schedule(3, 2), seeded())
    assert (emissions[0][observation.hidden] == 0).all()
    for state, weight in enumerate(weights):
        value, _ = evidence.value_and_gradient(weight.expand(10, 3))
        torch.testing.assert_close(emissions[0, :, state].sum(), value, rtol=1e-5, atol=1e-5)


@given(seed=st.integers(0, 40), mask=st.booleans())
def test_the_composite_gradient_is_that_of_the_evidence(seed, mask):
    channel = MaskChannel(SIZE, 0.2) if mask else ReplacementChannel(SIZE, 0.2)
    observation = channel.corrupt(torch.randint(SIZE, (6,), generator=seeded(seed)), seeded(seed))
    evidence, _ = CompositeEvidence.gather(bigrams(2), observation, Schedule(2), seeded(seed))
    field = torch.rand(6, 2, generator=seeded(seed)).double().requires_grad_()
    value, gradient = evidence.value_and_gradient(field)
    (expected,) = torch.autograd.grad(value, field)
    torch.testing.assert_close(gradient.detach(), expected, rtol=1e-6, atol=1e-6)


def test_without_the_prior_term_the_gradient_is_the_posterior_mean():
    observation = masked(8)
    with_prior, _ = CompositeEvidence.gather(bigrams(), observation, Schedule(2), seeded())
    without, _ = CompositeEvidence.gather(bigrams(), observation, Schedule(2), seeded(), prior_term=False)
    field = torch.full((8, 2), 0.5).double()
    pool = log_pool(without.log_probs.double(), field[without.position])
    expected = torch.einsum("nv,inv->ni", pool.exp(), without.log_probs.double())
    difference = without.value_and_gradient(field)[1] - with_prior.value_and_gradient(field)[1]
    torch.testing.assert_close(difference[without.position], expected)


@given(
    seed=st.integers(0, 30), experts=st.integers(2, 4), length=st.integers(1, 12), tau=st.sampled_from([0.0, 0.3, 2.0])
)
def test_the_maximum_is_that_of_a_convex_solver(seed, experts, length, tau):
    log_probs = torch.log_softmax(2 * torch.randn(experts, length, SIZE, generator=seeded(seed)), dim=-1)
    observation = masked(length, seed)
    position = (~observation.hidden).nonzero()[:, 0]
    evidence = CompositeEvidence(position, log_probs[:, position], observation, 1)
    found = maximise(evidence, tau, tolerance=1e-4)
    assert found.converged
    assert (found.field >= 0).all()
    np.testing.assert_allclose(found.field.sum(axis=1), 1)
    field, table = cvxpy.Variable((length, experts)), log_probs.double().numpy()
    terms = [
        field[place] @ table[:, place, observation.tokens[place]] - cvxpy.log_sum_exp(table[:, place].T @ field[place])
        for place in position.tolist()
    ]
    penalty = tau * cvxpy.sum(cvxpy.abs(field[1:] - field[:-1])) if length > 1 else 0
    constraints = [field >= 0, cvxpy.sum(field, axis=1) == 1]
    problem = cvxpy.Problem(cvxpy.Maximize(sum(terms, cvxpy.Constant(0)) - penalty), constraints)
    problem.solve(solver=cvxpy.CLARABEL)
    optimum = problem.value + len(position) * np.log(0.7)
    assert optimum - found.gap - 1e-5 <= found.objective <= optimum + 1e-5
    assert found.objective == pytest.approx(
        float(evidence.value_and_gradient(torch.from_numpy(found.field))[0]) - tau * variation(found.field)
    )


def test_edges():
    experts, weights = bigrams(), torch.tensor(simplex_lattice(2, 2))
    channel = MaskChannel(SIZE, 0.5)
    lost = channel.observe(torch.full((1, 5), channel.mask_id))
    heard = gather_evidence(experts, lost, Schedule(5), seeded(), weights)
    assert (heard.emissions == 0).all()
    assert heard.cost.evaluations == 0  # nothing is visible: nothing is read
    short = channel.observe(torch.tensor([[1, 2]]))
    heard = gather_evidence(experts, short, Schedule(5), seeded(), weights)
    assert torch.isfinite(heard.emissions).all()
    assert (heard.kept == 1).all()
    assert heard.cost.evaluations == 2 * 2  # two of the five folds hold a position
    other = BigramExpert.random(SIZE + 1, 1.0, seeded(), "other")
    for bad, message in [([], "no experts"), ([other], "tokens"), ([*experts, other], "different vocabularies")]:
        with pytest.raises(ConservatorError, match=message):
            gather_evidence(bad, short, Schedule(5), seeded(), weights)
    with pytest.raises(ConservatorError, match="at least 1"):
        Schedule(0)


def test_long_sequences_are_read_in_windows():
    table = torch.randn(60, SIZE, generator=seeded())

    class Short(CategoricalExpert):
        """It reads at most 8 positions, and says what it says by the token before."""

        def log_probs(self, tokens, hidden, kappa=0.0):
            assert tokens.shape[1] <= 8
            before = torch.cat([tokens[:, :1] * 0, tokens[:, :-1].masked_fill(hidden[:, :-1], 0)], dim=1)
            return torch.log_softmax(table[before], dim=-1).double()

    expert = Short(torch.zeros(8, SIZE), "short")
    observation = masked(50, rows=1)
    weights = torch.ones(1, 1).double()
    emissions = gather_evidence([expert], observation, Schedule(2), seeded(), weights).emissions
    # The same by hand: every position in its window, with its fold hidden. A window's first position has no token
    # before it, but none of those is scored, except the first of all.
    patterns = Schedule(2).draw(~observation.hidden, seeded())[0]
    tokens, hidden = observation.tokens[0], observation.hidden[0]
    for place in (~hidden).nonzero()[:, 0].tolist():
        unseen = hidden | patterns[int(patterns[:, place].nonzero())]
        before = 0 if place == 0 or unseen[place - 1] else int(tokens[place - 1])
        expected = torch.log_softmax(table[before], dim=-1)[tokens[place]] + np.log(0.7)
        assert float(emissions[0, place, 0]) == pytest.approx(float(expected), abs=1e-5)


def test_pools_of_a_lattice():
    log_probs = torch.log_softmax(torch.randn(2, 3, 7, generator=seeded()), -1)
    for weight in torch.tensor(simplex_lattice(2, 4)):
        mixed = torch.einsum("i,inv->nv", weight.float(), log_probs)
        pool, log_norm = pool_of(log_probs, weight)
        torch.testing.assert_close(pool, torch.log_softmax(mixed, -1))
        torch.testing.assert_close(log_norm.expand(3), torch.logsumexp(mixed, -1), rtol=1e-5, atol=1e-6)


def test_without_the_prior_term_a_state_is_scored_by_its_mean_log_probability():
    experts, observation, weights = bigrams(), masked(9, rows=2), torch.tensor(simplex_lattice(2, 2))
    with_prior = gather_evidence(experts, observation, Schedule(3), seeded(), weights).emissions
    without = gather_evidence(experts, observation, Schedule(3), seeded(), weights, prior_term=False).emissions
    torch.testing.assert_close(without[..., :2], with_prior[..., :2])  # experts are normalised as they are
    kept = np.log(0.7) * (~observation.hidden)
    torch.testing.assert_close(without[..., 2] - kept, (without[..., :2] - kept[..., None]).mean(-1))


def test_what_does_not_fit_into_the_budget_is_refused():
    expert = BigramExpert(torch.zeros(2), torch.zeros(2, 2))
    observation = MaskChannel(2, 0.1).observe(torch.zeros(2**20, dtype=torch.long))
    with pytest.raises(ConservatorError, match="bytes; at most"):
        CompositeEvidence.gather([expert] * 130, observation, Schedule(5), seeded())


LARGE = """
import resource, torch
from conservator.channels import MaskChannel
from conservator.experts.expert import ExpertSpec, copy_visible
from conservator.field.convex import maximise
from conservator.field.composite import CompositeEvidence
from conservator.field.cost import Cost
from conservator.field.folds import DEFAULT
from conservator.field.infer import infer_with_bayes

V, L = 50_257, 512
torch.set_num_threads(1)

class Large:
    def __init__(self, seed):
        self.spec = ExpertSpec(str(seed), V, L)
        self.row = torch.log_softmax(torch.randn(V, generator=torch.Generator().manual_seed(seed)), -1)

    def log_probs(self, tokens, hidden, kappa):
        return self.row.expand(*tokens.shape, V)

experts = [Large(0), Large(1)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tokens = torch.randint(V, (1, L), generator=torch.Generator().manual_seed(2))
observation = MaskChannel(V, 0.2).corrupt(tokens, torch.Generator().manual_seed(3))
infer_with_bayes(experts, observation, torch.Generator().manual_seed(4))
evidence, _ = CompositeEvidence.gather(
    experts, observation.channel.observe(observation.tokens[0]), DEFAULT, torch.Generator().manual_seed(4)
)
evidence.value_and_gradient(torch.full((L, 2), 0.5, dtype=torch.float64))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_a_large_vocabulary_fits_into_a_gigabyte():
    """512 tokens of 50,257, two experts: what is kept and what passes through, in MB."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert 50 < float(done.stdout) < 1000


def test_composite_evidence_is_that_of_enumerated_conditionals():
    """Two chains whose every sequence is listed: conditionals by summing, pools and the channel by hand."""
    experts, weights, length = bigrams(), torch.tensor(simplex_lattice(2, 2)), 5
    sequences = all_sequences(SIZE, length)
    laws = [expert.log_density(sequences).exp() for expert in experts]
    for channel in (MaskChannel(SIZE, 0.3), ReplacementChannel(SIZE, 0.3)):
        observation = channel.corrupt(torch.randint(SIZE, (1, length), generator=seeded(5)), seeded(6))
        emissions = gather_evidence(experts, observation, Schedule(2), seeded(), weights).emissions[0]
        patterns = Schedule(2).draw(~observation.hidden, seeded())[0]
        tokens, hidden = observation.tokens[0], observation.hidden[0]
        for place in (~hidden).nonzero()[:, 0].tolist():
            shown = ~(hidden | patterns[int(patterns[:, place].nonzero())])
            fits = (sequences[:, shown] == tokens[shown]).all(-1)
            table = torch.stack(
                [torch.stack([law[fits & (sequences[:, place] == v)].sum() for v in range(SIZE)]) for law in laws]
            )
            log_probs = (table / table.sum(-1, keepdim=True)).log()
            likelihood = channel.log_likelihood(channel.observe(tokens[[place]]))[0]
            for state, weight in enumerate(weights):
                pool = torch.log_softmax(weight @ log_probs, dim=-1)
                expected = torch.logsumexp(likelihood + pool, dim=-1)
                torch.testing.assert_close(emissions[place, state], expected, rtol=1e-5, atol=1e-5)


def test_the_composite_gradient_agrees_with_finite_differences():
    observation = ReplacementChannel(SIZE, 0.2).observe(torch.randint(SIZE, (6,), generator=seeded()))
    evidence, _ = CompositeEvidence.gather(bigrams(), observation, Schedule(2, 2), seeded())
    field = torch.rand(6, 2, generator=seeded(), dtype=torch.float64).softmax(-1)
    _, gradient = evidence.value_and_gradient(field)
    for place in range(6):
        for expert in range(2):
            step = torch.zeros_like(field)
            step[place, expert] = 1e-5
            up, down = (evidence.value_and_gradient(field + sign * step)[0] for sign in (1, -1))
            assert float((up - down) / 2e-5) == pytest.approx(float(gradient[place, expert]), abs=1e-6)


def test_without_the_prior_term_any_channel_sums_the_unnormalised_pool():
    channel, weights = ReplacementChannel(SIZE, 0.3), torch.tensor(simplex_lattice(2, 2))
    experts = [CategoricalExpert(torch.randn(6, SIZE, generator=seeded(n)), f"{n}") for n in range(2)]
    observation = channel.observe(torch.randint(SIZE, (1, 6), generator=seeded()))
    heard = gather_evidence(experts, observation, Schedule(2), seeded(), weights, prior_term=False)
    log_probs = torch.stack([expert.log_marginals for expert in experts])
    for state, weight in enumerate(weights):
        mixed = torch.einsum("i,ilv->lv", weight, log_probs)
        expected = torch.logsumexp(channel.log_likelihood(observation) + mixed, dim=-1)
        torch.testing.assert_close(heard.emissions[..., state], expected, rtol=1e-5, atol=1e-6)
    whole = gather_evidence(experts, observation, Schedule(2), seeded(), weights)
    torch.testing.assert_close(heard.kept, whole.kept)  # how likely a token is kept does not depend on it


def test_experts_that_read_any_length_are_read_in_stretches(monkeypatch):
    lengths = []

    class Watching(BigramExpert):
        def log_probs(self, tokens, hidden, kappa=0.0):
            lengths.append(tokens.shape[1])
            return super().log_probs(tokens, hidden, kappa)

    monkeypatch.setattr("conservator.field.composite.LONGEST", 16)
    monkeypatch.setattr("conservator.field.composite.CHUNK", 1)
    expert = Watching(torch.zeros(SIZE), torch.zeros(SIZE, SIZE))
    gather_evidence([expert], masked(50, rows=1), Schedule(2), seeded(), torch.ones(1, 1))
    assert max(lengths) == 16


def test_too_short_a_context_is_said():
    with pytest.raises(ConservatorError, match="at least 8"):
        cut_into_windows(9, 7)
    assert len(cut_into_windows(7, 7)) == 1
