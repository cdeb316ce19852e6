"""Baselines on experts for which their composition is known."""

import numpy as np
import pytest
import torch

from conservator import ConservatorError, MaskChannel
from conservator.experts import Context, Team
from conservator.field import posterior, sticky
from conservator.reference import CategoricalExpert, Particles, PerColumn, decode_one_step
from conservator_studies.baselines import BASELINES, Setting, find_baseline
from conservator_studies.baselines.chunked import ChunkedExpert
from conservator_studies.baselines.constant import GRID, pool_loss
from conservator_studies.baselines.routers import inherit
from support.fakes import FakeExpert

SIZE, LENGTH, WINDOWS = 5, 24, 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def prefers(number):
    """An expert that prefers one token."""
    table = torch.zeros(LENGTH, SIZE)
    table[:, number] = 3.0
    return CategoricalExpert(table, f"prefers {number}")


EXPERTS = [prefers(number) for number in range(3)]
LABELS = torch.tensor([[0] * 12 + [1] * 12, [2] * 12 + [0] * 12, [1] * 24])
OBSERVED = MaskChannel(SIZE, 0.3).corrupt(LABELS, seeded())
LOSSES = -torch.stack([expert.log_marginals for expert in EXPERTS])  # (m, L, V)


SMALL = Particles(8, 16, 4, steps=4)
GENERALISTS = [
    CategoricalExpert(torch.zeros(LENGTH, SIZE), "generalist"),
    CategoricalExpert(torch.zeros(LENGTH, SIZE), "generalist_2x"),
    CategoricalExpert(torch.arange(SIZE).expand(LENGTH, SIZE).float(), "generalist_3x"),
]
NAMES = [*BASELINES, "single:prefers 1"]


def make_setting(labels=LABELS):
    return Setting(Team(EXPERTS), OBSERVED, labels, samples=64, particles=SMALL, generalists=GENERALISTS)


@pytest.fixture(scope="module")
def setting():
    return make_setting()


def inferred(name, setting):
    return find_baseline(name)(setting).inferred


def losses_of_visible():
    """Loss (N, L, m) of every visible token; factorised experts ignore the context."""
    positions = torch.arange(LENGTH).expand(WINDOWS, -1)
    losses = LOSSES[:, positions, OBSERVED.readable].permute(1, 2, 0).double()
    return losses.masked_fill(OBSERVED.lost[..., None], torch.nan)


@pytest.mark.parametrize("name", NAMES)
def test_every_baseline_gives_a_field(name, setting):
    composed = find_baseline(name)(setting)
    field = composed.inferred.field
    assert field.shape == (WINDOWS, LENGTH, len(composed.team))
    torch.testing.assert_close(field.sum(-1), torch.ones(WINDOWS, LENGTH, dtype=torch.float64))
    assert torch.equal(field, inferred(name, make_setting()).field)


def test_held_out_scores_are_losses_and_plain_scores_are_half_of_them(setting):
    expected = losses_of_visible()
    torch.testing.assert_close(setting.held_out_scores.values, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    # A token is revealed half of the time, and scores 0.
    ratio = setting.plain_scores.values.nansum() / expected.nansum()
    assert ratio == pytest.approx(0.5, abs=0.02)


def test_packllm_sim_is_a_softmax_of_mean_scores(setting):
    expected = torch.softmax(-setting.plain_scores.values.nanmean(dim=1) / 0.1, dim=-1)
    torch.testing.assert_close(inferred("packllm_sim", setting).field[:, 5], expected)


def test_packllm_opt_is_the_best_of_its_line_searches(setting):
    weights = inferred("packllm_opt", setting).field[:, 0]
    order = setting.plain_scores.mean().argsort(dim=-1)
    corners = torch.eye(3, dtype=torch.float64)
    for window in range(WINDOWS):
        weight = corners[order[window, 0]]
        for rank in (1, 2):
            candidates = [(1 - a) * weight + a * corners[order[window, rank]] for a in GRID]
            scored = [float(pool_loss(setting, c.expand(WINDOWS, 3))[window]) for c in candidates]
            best = min(range(21), key=lambda index: (scored[index], -index))
            weight = candidates[best]
        torch.testing.assert_close(weights[window], weight)
    # The third window has only one token; the expert that prefers it has the largest weight.
    assert weights[2].argmax() == 1


def test_selectors_choose_the_expert_of_a_pure_window(setting):
    for name in ("best_single_marginal", "best_single_posterior", "global"):
        field = inferred(name, setting).field
        assert (field == field[:, :1]).all()
    assert inferred("best_single_marginal", setting).field[2, 0].tolist() == [0, 1, 0]


def test_demix_is_a_softmax_of_scores_where_visible():
    setting = Setting(Team(EXPERTS), OBSERVED, LABELS, smoother=PerColumn(0.0))
    visible = ~OBSERVED.lost
    expected = torch.softmax(-losses_of_visible(), dim=-1)[visible]
    field = inferred("demix_heldout", setting).field[visible]
    torch.testing.assert_close(field, expected, rtol=1e-5, atol=1e-6)


def test_lost_positions_get_the_scores_of_the_nearest_visible_positions():
    nan = torch.nan
    scores = torch.tensor([[nan, 1.0, nan, 3.0, nan, nan]])[..., None]
    assert inherit(scores)[0, :, 0].tolist() == [1, 1, 2, 3, 3, 3]
    assert (inherit(torch.full((1, 3, 2), nan)) == 0).all()


def test_the_raw_loss_router_iterates_the_papers_update():
    setting = Setting(Team(EXPERTS), OBSERVED, LABELS, smoother=PerColumn(0.0))
    expected = torch.softmax(-30 * losses_of_visible().nan_to_num(), dim=-1)
    field = inferred("raw_loss_heldout", setting).field
    torch.testing.assert_close(field, expected, rtol=1e-4, atol=1e-6)


def test_the_markov_router_is_the_posterior_of_its_best_chain(setting):
    field = inferred("hmm_heldout", setting).field
    for window in range(WINDOWS):
        rows = -losses_of_visible()[window].nan_to_num().numpy()
        posteriors = [posterior(rows, sticky(np.eye(3), jump)) for jump in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)]
        best = max(posteriors, key=lambda fitted: fitted[0])
        np.testing.assert_allclose(field[window].numpy(), best[1], atol=1e-4)


def test_shuffled_fields_have_the_same_weights_at_other_positions(setting):
    ours = inferred("local_bayes", setting).field
    within = inferred("shuffled_within", setting).field
    for before, after in zip(ours, within, strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
        assert not torch.equal(before, after)
    assert torch.equal(inferred("shuffled_across", setting).field[1], ours[0])
    average = inferred("field_average", setting).field
    torch.testing.assert_close(average[:, 3], ours.mean(dim=1))


def test_only_the_privileged_router_uses_labels(setting):
    assert torch.equal(inferred("hard_label", setting).field.argmax(-1), LABELS)
    other = make_setting(LABELS.roll(1))
    for name in NAMES:
        same = torch.equal(inferred(name, setting).field, inferred(name, other).field)
        assert same == (name not in ("hard_label", "hard_label_own")), name


def test_in_domain_context_hides_text_where_an_expert_has_no_weight(setting):
    for name in ("local_bayes", "hard_label"):
        plain, in_domain = find_baseline(name)(setting), find_baseline(f"{name}_own")(setting)
        assert plain.context_policy is None
        assert torch.equal(in_domain.inferred.field, plain.inferred.field)
        hidden_from = in_domain.context_policy.hidden_from(in_domain.inferred.composition)
        assert torch.equal(hidden_from, in_domain.inferred.field < 0.05)
    assert torch.equal(hidden_from, LABELS[..., None] != torch.arange(3))


@pytest.mark.parametrize(
    ("name", "preferred"), [("single:prefers 1", 1), ("single:prefers 2", 2), ("generalist_3x", SIZE - 1)]
)
def test_a_single_expert_has_all_the_weight(name, preferred, setting):
    composed = find_baseline(name)(setting)
    assert composed.team.names == (name.removeprefix("single:"),)
    decoded = decode_one_step(composed.team, OBSERVED, composed.inferred.composition)
    assert (decoded.tokens[OBSERVED.lost] == preferred).all()
    assert composed.inferred.cost.evaluations == 0


def test_unknown_names_are_reported(setting):
    with pytest.raises(ConservatorError, match="no baseline 'nothing'"):
        find_baseline("nothing")
    with pytest.raises(ConservatorError, match="available: prefers 0, prefers 1, prefers 2"):
        find_baseline("single:unknown")(setting)
    with pytest.raises(ConservatorError, match="available: none"):
        find_baseline("generalist")(Setting(Team(EXPERTS), OBSERVED, LABELS))


def test_particles_recover_regions_and_the_global_weight_of_a_pure_window(setting):
    local = inferred("local_particles", setting)
    assert (local.field.argmax(-1) == LABELS).double().mean() > 0.85
    shared = inferred("global_particles", setting)
    assert (shared.field == shared.field[:, :1]).all()
    assert shared.field[2, 0, 1] > 0.9
    first = inferred("local_particles", setting.first(1))
    assert torch.equal(first.field, local.field[:1])


def test_local_methods_recover_the_regions(setting):
    for name in ("local_bayes", "local_map", "local_eg", "demix_heldout", "raw_loss_heldout", "hmm_heldout"):
        result = inferred(name, setting)
        accuracy = (result.regions.argmax(-1) == LABELS).double().mean()
        assert accuracy > 0.85, (name, accuracy)
    assert isinstance(setting.smoother, PerColumn)


def test_costs_are_counted(setting):
    """Evaluations per window of the experts, before decoding."""
    evaluations = {name: inferred(name, setting).cost.evaluations / WINDOWS for name in NAMES}
    assert evaluations["equal"] == evaluations["hard_label"] == 0
    assert evaluations["local_bayes"] == evaluations["shuffled_within"] == evaluations["hmm_heldout"] == 2 * 3 * 3
    assert evaluations["hmm"] == evaluations["packllm_sim"] == evaluations["packllm_opt"] <= 64 * 3
    assert evaluations["best_single_posterior"] == 3 * SMALL.particles * (SMALL.steps + SMALL.samples)
    assert evaluations["local_particles"] == evaluations["global_particles"] == 8 * 3 * 2 * 16 * (4 + 4)


def test_shuffling_across_windows_needs_two_windows():
    single_window = Setting(Team(EXPERTS), OBSERVED[:1], LABELS[:1])
    with pytest.raises(ConservatorError, match="at least two"):
        BASELINES["shuffled_across"](single_window)


def test_a_long_window_is_processed_in_chunks():
    """Each position is predicted from its chunk; a window within the maximum length is not split."""
    expert = FakeExpert(context=8)
    chunked, tokens = ChunkedExpert(expert), torch.randint(256, (3, 20), generator=torch.Generator().manual_seed(0))
    hidden = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    context = Context(tokens, hidden)
    log_probs = chunked.predict(context, context.everywhere()).reshape(3, 20, -1)
    for start in (0, 8, 16):
        chunk = Context(tokens[:, start : start + 8], hidden[:, start : start + 8])
        expected = expert.predict(chunk, chunk.everywhere()).reshape(3, -1, 256)
        torch.testing.assert_close(log_probs[:, start : start + 8], expected)
    assert chunked.spec.max_length is None
    short = Context(tokens[:, :8], hidden[:, :8])
    torch.testing.assert_close(chunked.predict(short, short.everywhere()), expert.predict(short, short.everywhere()))
