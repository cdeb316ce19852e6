"""The laws of every engine, in one list: a new engine is tested by adding it."""

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from conservator.channels import MaskChannel, ReplacementChannel
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field import GLOBAL, Bayes, Composition, Folds, Inferred, Outcome, SubsampledBayes, global_prior
from conservator.reference import Ascent, BigramExpert, Maximum, Particles

SIZE = 3
ENGINES = {
    "bayes": Bayes(),
    "bayes near damage": Bayes(evidence_radius=2),
    "global": GLOBAL,
    "survey": SubsampledBayes(),
    "maximum": Maximum(),
    "ascent": Ascent(),
    "particles": Particles(iterations=2, particles=3, samples=2, steps=2),
}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
# Algorithm 1 draws particles, so that its field is never exactly what the others find.
of_evidence = pytest.mark.parametrize(
    "engine", [one for one in ENGINES.values() if not isinstance(one, Particles)], ids=list(ENGINES)[:-1]
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2):
    return [BigramExpert.random(SIZE, 2.0, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(rows, length, seed=0, rate=0.5):
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, (rows, length), generator=seeded(seed)), seeded(seed))


class Counting(BigramExpert):
    """Counts the sequences that it reads."""

    evaluations = 0

    def predict(self, context, at):
        self.evaluations += len(context.tokens)
        return super().predict(context, at)


@engines
def test_an_engine_is_a_frozen_record_that_is_called(engine):
    assert list(inspect.signature(engine).parameters) == ["team", "observation", "generator"]
    with pytest.raises(FrozenInstanceError):
        setattr(engine, fields(engine)[0].name, None)
    assert engine == type(engine)(*(getattr(engine, field.name) for field in fields(engine)))


@engines
def test_every_engine_gives_a_field_on_the_simplex(engine):
    observation = masked(2, 9, rate=0.3)
    found = engine(Team(bigrams()), observation, seeded())
    ones = torch.ones(2, 9, dtype=torch.float64)
    for weights in (found.field, found.regions, found.composition.mean(), found.composition.share):
        assert weights.shape[:2] == (2, 9)
        assert weights.dtype == torch.float64
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), ones)
    assert found.field.shape == found.regions.shape == (2, 9, 2)
    torch.testing.assert_close(found.composition.mean(), found.field)
    assert found.informed.tolist() == [True, True]
    assert found.scored[observation.lost].all()
    assert torch.equal(found.doubt, torch.zeros(2, 9, dtype=torch.float64))  # what is visible is known
    assert len(found.outcomes) == 2
    assert all(isinstance(one, Outcome) for one in found.outcomes)


@engines
def test_the_same_seed_gives_the_same_result(engine):
    observation = masked(2, 9, rate=0.3)
    once, again = (engine(Team(bigrams()), observation, seeded()) for _ in range(2))
    for name in ("field", "regions", "doubt", "scored", "informed"):
        assert torch.equal(getattr(once, name), getattr(again, name))
    assert torch.equal(once.composition.share, again.composition.share)
    assert once.outcomes == again.outcomes
    assert once.cost.evaluations == again.cost.evaluations


@engines
def test_the_cost_is_what_the_experts_were_asked(engine):
    experts = [Counting(one.initial, one.transition, one.spec.name) for one in bigrams(3)]
    team = Team(experts)
    found = engine(team, masked(2, 9, rate=0.3), seeded())
    asked = [expert.evaluations for expert in experts]
    assert found.cost.evaluations == sum(asked) == team.meter.evaluations
    assert asked[0] == asked[1] == asked[2] > 0
    assert found.cost.arithmetic_seconds >= 0
    assert found.cost.expert_seconds > 0
    again = engine(team, masked(2, 9, rate=0.3), seeded())  # a meter goes on, and a cost is that of its own call
    assert again.cost.evaluations == found.cost.evaluations


@of_evidence
def test_evidence_costs_at_most_one_reading_a_pattern(engine):
    assert 0 < engine(Team(bigrams()), masked(2, 9, rate=0.3), seeded()).cost.evaluations <= 2 * 2 * 6


@engines
def test_one_expert_has_all_the_weight(engine):
    assert (engine(Team(bigrams(1)), masked(2, 5), seeded()).field == 1).all()


@engines
def test_where_nothing_is_visible_that_is_said(engine):
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([[SIZE] * 6, [0, 1, SIZE, 0, 1, 2]]))
    found = engine(Team(bigrams()), observation, seeded())
    assert found.informed.tolist() == [False, True]
    assert len(found.outcomes) == 2
    if not isinstance(engine, Particles):  # the field is the prior's
        torch.testing.assert_close(found.field[0], torch.full((6, 2), 0.5, dtype=torch.float64))


@engines
def test_a_single_sequence_has_to_be_a_batch_of_one(engine):
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([0, 1]))
    for bad in (observation, observation[None][:0], observation[None][:, :0]):
        with pytest.raises(ConservatorError, match="it must be"):
            engine(Team(bigrams()), bad, seeded())


@engines
def test_a_channel_of_another_vocabulary_is_refused(engine):
    observation = MaskChannel(SIZE + 1, 0.5).observe(torch.tensor([[0, 1]]))
    with pytest.raises(ConservatorError, match="the channel has 4 tokens, the experts 3"):
        engine(Team(bigrams()), observation, seeded())


@of_evidence
def test_a_document_may_be_doubtful_and_have_marks_besides(engine):
    tokens = masked(2, 12, rate=0.3).tokens
    observation = ReplacementChannel(SIZE, 0.2).observe(tokens)
    if isinstance(engine, SubsampledBayes):
        with pytest.raises(ConservatorError, match="the engine Bayes does"):
            engine(Team(bigrams()), observation, seeded())
        return
    found = engine(Team(bigrams()), observation, seeded())
    lost = tokens == SIZE
    assert (found.doubt[lost] == 0).all()  # nothing was seen there that could be doubted
    assert (found.doubt[~lost] > 0).all()
    assert (found.doubt <= 1).all()
    assert torch.isfinite(found.field).all()
    torch.testing.assert_close(found.field.sum(-1), torch.ones(2, 12, dtype=torch.float64))


@of_evidence
def test_regions_are_told_apart(engine):
    """Two experts that each know one half of the sequence: tokens that count up, and tokens that count down."""
    up = 4.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    tokens = torch.cat([torch.arange(20) % SIZE, -torch.arange(20) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    found = engine(team, observation, seeded())
    if engine is GLOBAL:
        assert (found.field == found.field[:, :1]).all()
    else:
        truth = torch.arange(40) >= 20
        right = found.regions[0].argmax(-1) == truth
        assert right[found.scored[0]].double().mean() > 0.9


def watched(seen):
    """Two experts, of tokens that count up and down, that note in ``seen`` what is hidden from them."""

    class Watching(BigramExpert):
        def predict(self, context, at):
            seen.setdefault(self.spec.name, []).append(context.hidden)
            return super().predict(context, at)

    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    return Team([Watching(torch.zeros(SIZE), matrix, name) for name, matrix in (("up", up), ("down", up.T))])


def test_after_the_first_repeat_an_expert_reads_what_may_be_its_own():
    seen = {}
    team = watched(seen)
    tokens = torch.cat([torch.arange(40) % SIZE, -torch.arange(40) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    Bayes(Folds(2, 2))(team, observation, seeded())
    first, second = (torch.cat(seen["up"]).split(2), torch.cat(seen["down"]).split(2))
    foreign = torch.arange(80) >= 50  # well inside the part that counts down
    assert torch.equal(first[0], second[0])  # the first repeat hides the same from both
    assert first[1][:, foreign].all()
    assert not second[1][:, foreign].all()
    assert not first[1][:, torch.arange(80) < 30].all()
    seen.clear()
    Bayes(Folds(2, 2), domain_threshold=0.0)(team, observation, seeded())
    assert torch.equal(torch.cat(seen["up"]), torch.cat(seen["down"]))


def test_where_one_composition_fits_a_whole_sequence_nothing_is_foreign():
    seen = {}
    observation = MaskChannel(SIZE, 0.1).corrupt((torch.arange(40) % SIZE)[None], seeded())
    found = Bayes(Folds(2, 2), parts=10, priors=global_prior)(watched(seen), observation, seeded())
    assert found.field[0, 0, 0] > 0.8
    assert torch.equal(torch.cat(seen["up"]), torch.cat(seen["down"]))
    assert Bayes(parts=10, priors=global_prior) == GLOBAL


def test_near_damage_the_field_is_scored_and_read_alone():
    seen = {}
    tokens = (torch.arange(40) % SIZE)[None].clone()
    tokens[0, 20] = SIZE
    observation = MaskChannel(SIZE, 0.1).observe(tokens)
    found = Bayes(Folds(2, 1), evidence_radius=5)(watched(seen), observation, seeded())
    evidence_radius = (torch.arange(40) - 20).abs() <= 5
    assert torch.equal(found.scored[0], evidence_radius)
    assert torch.equal(torch.cat(seen["up"]).any(0), evidence_radius)  # only there is anything hidden, to be predicted


def test_no_rounds_are_refused():
    with pytest.raises(ConservatorError, match="at least one"):
        Bayes(rounds=0)(Team(bigrams()), masked(1, 4), seeded())


def test_a_field_that_was_found_otherwise_is_given():
    field = torch.rand(2, 5, 3, generator=seeded(), dtype=torch.float64).softmax(-1)
    for belief in (field, Composition.of_field(field)):
        found = Inferred.given(belief)
        torch.testing.assert_close(found.field, field)
        assert found.scored.all()
        assert found.informed.tolist() == [True, True]
        assert (found.doubt == 0).all()
        assert (found.outcomes, found.cost) == ((), Cost())
    doubt = torch.rand(2, 5, generator=seeded(), dtype=torch.float64)
    assert Inferred.given(field, Cost(7), doubt).doubt is doubt
    assert Inferred.given(field, Cost(7), doubt).cost.evaluations == 7
