"""Every baseline on experts for which its composition is known."""

import numpy as np
import pytest
import torch

from conservator import ConservatorError, MaskChannel
from conservator.experts import Context, Team
from conservator.field import posterior, sticky
from conservator.reference import CategoricalExpert, NoSmoothing, Particles, PerColumn, decode_one_step
from conservator_studies.baselines import BASELINES, Setting, find_baseline
from conservator_studies.baselines.constant import GRID, pool_loss
from conservator_studies.baselines.pieces import InPieces
from conservator_studies.baselines.routers import inherit
from support.fakes import FakeExpert

SIZE, LENGTH, WINDOWS = 5, 24, 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def known(number):
    """An expert that likes one token."""
    table = torch.zeros(LENGTH, SIZE)
    table[:, number] = 3.0
    return CategoricalExpert(table, f"likes {number}")


EXPERTS = [known(number) for number in range(3)]
LABELS = torch.tensor([[0] * 12 + [1] * 12, [2] * 12 + [0] * 12, [1] * 24])
OBSERVED = MaskChannel(SIZE, 0.3).corrupt(LABELS, seeded())
LOSSES = -torch.stack([expert.log_marginals for expert in EXPERTS])  # (m, L, V)


SMALL = Particles(8, 16, 4, steps=4)
GENERALISTS = [
    CategoricalExpert(torch.zeros(LENGTH, SIZE), "generalist"),
    CategoricalExpert(torch.zeros(LENGTH, SIZE), "generalist_2x"),
    CategoricalExpert(torch.arange(SIZE).expand(LENGTH, SIZE).float(), "generalist_3x"),
]
NAMES = [*BASELINES, "single:likes 1"]


def make(labels=LABELS):
    return Setting(Team(EXPERTS), OBSERVED, labels, samples=64, particles=SMALL, generalists=GENERALISTS)


@pytest.fixture(scope="module")
def setting():
    return make()


def inferred(name, setting):
    return find_baseline(name)(setting).inferred


def losses_of_visible():
    """(N, L, m) the loss of every visible token; factorised experts do not look at the context."""
    places = torch.arange(LENGTH).expand(WINDOWS, -1)
    losses = LOSSES[:, places, OBSERVED.readable].permute(1, 2, 0).double()
    return losses.masked_fill(OBSERVED.lost[..., None], torch.nan)


@pytest.mark.parametrize("name", NAMES)
def test_every_baseline_gives_a_field(name, setting):
    composed = find_baseline(name)(setting)
    field = composed.inferred.field
    assert field.shape == (WINDOWS, LENGTH, len(composed.team))
    torch.testing.assert_close(field.sum(-1), torch.ones(WINDOWS, LENGTH, dtype=torch.float64))
    assert torch.equal(field, inferred(name, make()).field)


def test_held_out_scores_are_the_losses_and_plain_ones_half_of_them(setting):
    expected = losses_of_visible()
    torch.testing.assert_close(setting.held_out_scores.values, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    ratio = (
        setting.plain_scores.values.nansum() / expected.nansum()
    )  # a token is revealed half of the time, and scores 0
    assert ratio == pytest.approx(0.5, abs=0.02)


def test_packllm_sim_is_a_softmax_of_mean_scores(setting):
    expected = torch.softmax(-setting.plain_scores.values.nanmean(dim=1) / 0.1, dim=-1)
    torch.testing.assert_close(inferred("packllm_sim", setting).field[:, 5], expected)


def test_packllm_opt_is_the_best_of_its_line_searches(setting):
    found = inferred("packllm_opt", setting).field[:, 0]
    order = setting.plain_scores.mean().argsort(dim=-1)
    corners = torch.eye(3, dtype=torch.float64)
    for window in range(WINDOWS):
        weight = corners[order[window, 0]]
        for place in (1, 2):
            candidates = [(1 - a) * weight + a * corners[order[window, place]] for a in GRID]
            scored = [float(pool_loss(setting, c.expand(WINDOWS, 3))[window]) for c in candidates]
            best = min(range(21), key=lambda one: (scored[one], -one))
            weight = candidates[best]
        torch.testing.assert_close(found[window], weight)
    # The third window is of one token alone: its expert gets everything.
    assert found[2].argmax() == 1


def test_selectors_choose_the_expert_of_a_pure_window(setting):
    for name in ("best_single_marginal", "best_single_posterior", "global"):
        field = inferred(name, setting).field
        assert (field == field[:, :1]).all()
    assert inferred("best_single_marginal", setting).field[2, 0].tolist() == [0, 1, 0]


def test_demix_is_a_softmax_of_scores_where_visible():
    setting = Setting(Team(EXPERTS), OBSERVED, LABELS, smoother=NoSmoothing())
    visible = ~OBSERVED.lost
    expected = torch.softmax(-losses_of_visible(), dim=-1)[visible]
    found = inferred("demix_heldout", setting).field[visible]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_lost_positions_inherit_from_the_nearest():
    nan = torch.nan
    scores = torch.tensor([[nan, 1.0, nan, 3.0, nan, nan]])[..., None]
    assert inherit(scores)[0, :, 0].tolist() == [1, 1, 2, 3, 3, 3]
    assert (inherit(torch.full((1, 3, 2), nan)) == 0).all()


def test_the_raw_loss_router_repeats_the_papers_update():
    setting = Setting(Team(EXPERTS), OBSERVED, LABELS, smoother=NoSmoothing())
    expected = torch.softmax(-30 * losses_of_visible().nan_to_num(), dim=-1)
    found = inferred("raw_loss_heldout", setting).field
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_markov_router_is_the_posterior_of_its_best_chain(setting):
    found = inferred("hmm_heldout", setting).field
    for window in range(WINDOWS):
        rows = -losses_of_visible()[window].nan_to_num().numpy()
        fitted = [posterior(rows, sticky(np.eye(3), jump)) for jump in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)]
        best = max(fitted, key=lambda one: one[0])
        np.testing.assert_allclose(found[window].numpy(), best[1], atol=1e-4)


def test_shuffled_fields_have_the_same_weights_in_other_places(setting):
    ours = inferred("local_bayes", setting).field
    within = inferred("shuffled_within", setting).field
    for before, after in zip(ours, within, strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
        assert not torch.equal(before, after)
    assert torch.equal(inferred("shuffled_across", setting).field[1], ours[0])
    average = inferred("field_average", setting).field
    torch.testing.assert_close(average[:, 3], ours.mean(dim=1))


def test_labels_are_for_the_privileged_router_alone(setting):
    assert torch.equal(inferred("hard_label", setting).field.argmax(-1), LABELS)
    other = make(LABELS.roll(1))
    for name in NAMES:
        same = torch.equal(inferred(name, setting).field, inferred(name, other).field)
        assert same == (name not in ("hard_label", "hard_label_own")), name


def test_in_its_own_context_an_expert_does_not_read_where_it_has_no_weight(setting):
    for name in ("local_bayes", "hard_label"):
        plain, own = find_baseline(name)(setting), find_baseline(f"{name}_own")(setting)
        assert plain.reading is None
        assert torch.equal(own.inferred.field, plain.inferred.field)
        assert torch.equal(own.reading.hidden_from(own.inferred.composition), own.inferred.field < 0.05)
    hidden_from = own.reading.hidden_from(own.inferred.composition)
    assert torch.equal(hidden_from, LABELS[..., None] != torch.arange(3))


@pytest.mark.parametrize(("name", "liked"), [("single:likes 1", 1), ("single:likes 2", 2), ("generalist_3x", SIZE - 1)])
def test_a_single_expert_decides_alone(name, liked, setting):
    composed = find_baseline(name)(setting)
    assert composed.team.names == (name.removeprefix("single:"),)
    decoded = decode_one_step(composed.team, OBSERVED, composed.inferred.composition)
    assert (decoded.tokens[OBSERVED.lost] == liked).all()
    assert composed.inferred.cost.evaluations == 0


def test_names_that_do_not_exist_are_said(setting):
    with pytest.raises(ConservatorError, match="no baseline 'nothing'"):
        find_baseline("nothing")
    with pytest.raises(ConservatorError, match="there are: likes 0, likes 1, likes 2"):
        find_baseline("single:nobody")(setting)
    with pytest.raises(ConservatorError, match="there are: none"):
        find_baseline("generalist")(Setting(Team(EXPERTS), OBSERVED, LABELS))


def test_particles_find_regions_and_one_weight_for_a_pure_window(setting):
    """Of visible tokens the posterior score is the loss, and the prior score is that of the composition alike."""
    found = inferred("local_particles", setting)
    assert (found.field.argmax(-1) == LABELS).double().mean() > 0.85
    one = inferred("global_particles", setting)
    assert (one.field == one.field[:, :1]).all()
    assert one.field[2, 0, 1] > 0.9
    first = inferred("local_particles", setting.first(1))
    assert torch.equal(first.field, found.field[:1])


def test_local_methods_find_the_regions(setting):
    for name in ("local_bayes", "local_map", "local_eg", "demix_heldout", "raw_loss_heldout", "hmm_heldout"):
        found = inferred(name, setting)
        accuracy = (found.regions.argmax(-1) == LABELS).double().mean()
        assert accuracy > 0.85, (name, accuracy)
    assert isinstance(setting.smoother, PerColumn)


def test_costs_are_counted(setting):
    """Evaluations a window: what a baseline asked of the experts before it decodes."""
    asked = {name: inferred(name, setting).cost.evaluations / WINDOWS for name in NAMES}
    assert asked["equal"] == asked["hard_label"] == 0
    assert asked["local_bayes"] == asked["shuffled_within"] == asked["hmm_heldout"] == 2 * 3 * 3
    assert asked["hmm"] == asked["packllm_sim"] == asked["packllm_opt"] <= 64 * 3
    assert asked["best_single_posterior"] == 3 * SMALL.particles * (SMALL.steps + SMALL.samples)
    assert asked["local_particles"] == asked["global_particles"] == 8 * 3 * 2 * 16 * (4 + 4)


def test_one_window_has_no_other_to_shuffle_with():
    alone = Setting(Team(EXPERTS), OBSERVED[:1], LABELS[:1])
    with pytest.raises(ConservatorError, match="at least two"):
        BASELINES["shuffled_across"](alone)


def test_a_long_window_is_read_in_pieces():
    """Each position from its piece alone; a window that is short enough is read as it is."""
    expert = FakeExpert(context=8)
    whole, tokens = InPieces(expert), torch.randint(256, (3, 20), generator=torch.Generator().manual_seed(0))
    hidden = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    context = Context(tokens, hidden)
    found = whole.predict(context, context.everywhere()).reshape(3, 20, -1)
    for start in (0, 8, 16):
        part = Context(tokens[:, start : start + 8], hidden[:, start : start + 8])
        expected = expert.predict(part, part.everywhere()).reshape(3, -1, 256)
        torch.testing.assert_close(found[:, start : start + 8], expected)
    assert whole.spec.max_length is None
    short = Context(tokens[:, :8], hidden[:, :8])
    torch.testing.assert_close(whole.predict(short, short.everywhere()), expert.predict(short, short.everywhere()))
