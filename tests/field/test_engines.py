"""Properties of every engine, in one list: a new engine is tested by adding it."""

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
    "subsampled": SubsampledBayes(),
    "maximum": Maximum(),
    "ascent": Ascent(),
    "particles": Particles(iterations=2, particles=3, samples=2, steps=2),
}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
# Algorithm 1 draws particles, so its field is never exactly that of the other engines.
evidence_engines = pytest.mark.parametrize(
    "engine", [engine for engine in ENGINES.values() if not isinstance(engine, Particles)], ids=list(ENGINES)[:-1]
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2):
    return [BigramExpert.random(SIZE, 2.0, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(rows, length, seed=0, rate=0.5):
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, (rows, length), generator=seeded(seed)), seeded(seed))


class Counting(BigramExpert):
    """Counts the sequences that it evaluates."""

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
    inferred = engine(Team(bigrams()), observation, seeded())
    ones = torch.ones(2, 9, dtype=torch.float64)
    for weights in (inferred.field, inferred.regions, inferred.composition.mean(), inferred.composition.state_probs):
        assert weights.shape[:2] == (2, 9)
        assert weights.dtype == torch.float64
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), ones)
    assert inferred.field.shape == inferred.regions.shape == (2, 9, 2)
    torch.testing.assert_close(inferred.composition.mean(), inferred.field)
    assert inferred.has_visible.tolist() == [True, True]
    assert inferred.scored[observation.lost].all()
    assert torch.equal(inferred.error_probs, torch.zeros(2, 9, dtype=torch.float64))  # visible tokens are known
    assert len(inferred.outcomes) == 2
    assert all(isinstance(outcome, Outcome) for outcome in inferred.outcomes)


@engines
def test_the_same_seed_gives_the_same_result(engine):
    observation = masked(2, 9, rate=0.3)
    once, again = (engine(Team(bigrams()), observation, seeded()) for _ in range(2))
    for name in ("field", "regions", "error_probs", "scored", "has_visible"):
        assert torch.equal(getattr(once, name), getattr(again, name))
    assert torch.equal(once.composition.state_probs, again.composition.state_probs)
    assert once.outcomes == again.outcomes
    assert once.cost.evaluations == again.cost.evaluations


@engines
def test_the_cost_counts_the_evaluations_of_the_experts(engine):
    experts = [Counting(expert.initial, expert.transition, expert.spec.name) for expert in bigrams(3)]
    team = Team(experts)
    inferred = engine(team, masked(2, 9, rate=0.3), seeded())
    evaluations_by_expert = [expert.evaluations for expert in experts]
    assert inferred.cost.evaluations == sum(evaluations_by_expert) == team.meter.evaluations
    assert evaluations_by_expert[0] == evaluations_by_expert[1] == evaluations_by_expert[2] > 0
    assert inferred.cost.arithmetic_seconds >= 0
    assert inferred.cost.expert_seconds > 0
    again = engine(team, masked(2, 9, rate=0.3), seeded())  # the meter accumulates; a cost is that of its call
    assert again.cost.evaluations == inferred.cost.evaluations


@evidence_engines
def test_evidence_costs_at_most_one_evaluation_per_pattern(engine):
    assert 0 < engine(Team(bigrams()), masked(2, 9, rate=0.3), seeded()).cost.evaluations <= 2 * 2 * 6


@engines
def test_one_expert_has_all_the_weight(engine):
    assert (engine(Team(bigrams(1)), masked(2, 5), seeded()).field == 1).all()


@engines
def test_sequences_without_visible_positions_are_reported(engine):
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([[SIZE] * 6, [0, 1, SIZE, 0, 1, 2]]))
    inferred = engine(Team(bigrams()), observation, seeded())
    assert inferred.has_visible.tolist() == [False, True]
    assert len(inferred.outcomes) == 2
    if not isinstance(engine, Particles):  # the field follows from the prior
        torch.testing.assert_close(inferred.field[0], torch.full((6, 2), 0.5, dtype=torch.float64))


@engines
def test_a_single_sequence_has_to_be_a_batch_of_one(engine):
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([0, 1]))
    for bad in (observation, observation[None][:0], observation[None][:, :0]):
        with pytest.raises(ConservatorError, match="must have the shape"):
            engine(Team(bigrams()), bad, seeded())


@engines
def test_a_channel_of_another_vocabulary_is_refused(engine):
    observation = MaskChannel(SIZE + 1, 0.5).observe(torch.tensor([[0, 1]]))
    with pytest.raises(ConservatorError, match="the channel has 4 tokens, the experts 3"):
        engine(Team(bigrams()), observation, seeded())


@evidence_engines
def test_a_document_may_have_uncertain_and_lost_tokens(engine):
    tokens = masked(2, 12, rate=0.3).tokens
    observation = ReplacementChannel(SIZE, 0.2).observe(tokens)
    if isinstance(engine, SubsampledBayes):
        with pytest.raises(ConservatorError, match="use the engine Bayes"):
            engine(Team(bigrams()), observation, seeded())
        return
    inferred = engine(Team(bigrams()), observation, seeded())
    lost = tokens == SIZE
    assert (inferred.error_probs[lost] == 0).all()  # lost positions have no observed token
    assert (inferred.error_probs[~lost] > 0).all()
    assert (inferred.error_probs <= 1).all()
    assert torch.isfinite(inferred.field).all()
    torch.testing.assert_close(inferred.field.sum(-1), torch.ones(2, 12, dtype=torch.float64))


@evidence_engines
def test_domain_segments_are_separated(engine):
    """Two experts that each predict one half of the sequence: tokens that count up, and tokens that count down."""
    up = 4.0 * torch.eye(SIZE).roll(1, dims=1)
    team = Team([BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")])
    tokens = torch.cat([torch.arange(20) % SIZE, -torch.arange(20) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    inferred = engine(team, observation, seeded())
    if engine is GLOBAL:
        assert (inferred.field == inferred.field[:, :1]).all()
    else:
        truth = torch.arange(40) >= 20
        right = inferred.regions[0].argmax(-1) == truth
        assert right[inferred.scored[0]].double().mean() > 0.9


def watched(seen):
    """Two experts, of tokens that count up and down, that record in ``seen`` the positions hidden from them."""

    class RecordingExpert(BigramExpert):
        def predict(self, context, at):
            seen.setdefault(self.spec.name, []).append(context.hidden)
            return super().predict(context, at)

    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    return Team([RecordingExpert(torch.zeros(SIZE), matrix, name) for name, matrix in (("up", up), ("down", up.T))])


def test_after_the_first_repeat_an_expert_reads_text_of_its_domain():
    seen = {}
    team = watched(seen)
    tokens = torch.cat([torch.arange(40) % SIZE, -torch.arange(40) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    Bayes(Folds(2, 2))(team, observation, seeded())
    first, second = (torch.cat(seen["up"]).split(2), torch.cat(seen["down"]).split(2))
    out_of_domain = torch.arange(80) >= 50  # well inside the part that counts down
    assert torch.equal(first[0], second[0])  # the first repeat hides the same from both
    assert first[1][:, out_of_domain].all()
    assert not second[1][:, out_of_domain].all()
    assert not first[1][:, torch.arange(80) < 30].all()
    seen.clear()
    Bayes(Folds(2, 2), domain_threshold=0.0)(team, observation, seeded())
    assert torch.equal(torch.cat(seen["up"]), torch.cat(seen["down"]))


def test_with_a_global_composition_no_text_is_out_of_domain():
    seen = {}
    observation = MaskChannel(SIZE, 0.1).corrupt((torch.arange(40) % SIZE)[None], seeded())
    inferred = Bayes(Folds(2, 2), resolution=10, priors=global_prior)(watched(seen), observation, seeded())
    assert inferred.field[0, 0, 0] > 0.8
    assert torch.equal(torch.cat(seen["up"]), torch.cat(seen["down"]))
    assert Bayes(resolution=10, priors=global_prior) == GLOBAL


def test_with_an_evidence_radius_only_text_near_damage_is_scored():
    seen = {}
    tokens = (torch.arange(40) % SIZE)[None].clone()
    tokens[0, 20] = SIZE
    observation = MaskChannel(SIZE, 0.1).observe(tokens)
    inferred = Bayes(Folds(2, 1), evidence_radius=5)(watched(seen), observation, seeded())
    near = (torch.arange(40) - 20).abs() <= 5
    assert torch.equal(inferred.scored[0], near)
    assert torch.equal(torch.cat(seen["up"]).any(0), near)  # only positions near damage are hidden and predicted


def test_zero_iterations_are_refused():
    with pytest.raises(ConservatorError, match="iterations must be at least 1, got 0"):
        Bayes(iterations=0)(Team(bigrams()), masked(1, 4), seeded())


def test_a_given_field_is_wrapped():
    field = torch.rand(2, 5, 3, generator=seeded(), dtype=torch.float64).softmax(-1)
    for weights in (field, Composition.of_field(field)):
        inferred = Inferred.given(weights)
        torch.testing.assert_close(inferred.field, field)
        assert inferred.scored.all()
        assert inferred.has_visible.tolist() == [True, True]
        assert (inferred.error_probs == 0).all()
        assert (inferred.outcomes, inferred.cost) == ((), Cost())
    error_probs = torch.rand(2, 5, generator=seeded(), dtype=torch.float64)
    assert Inferred.given(field, Cost(7), error_probs).error_probs is error_probs
    assert Inferred.given(field, Cost(7), error_probs).cost.evaluations == 7
