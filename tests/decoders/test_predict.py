"""Decoders against the conditionals of experts that are known exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator import BigramExpert, ConservatorError, MaskChannel, ReplacementChannel
from conservator.decoders.overturn import decode_with_channel
from conservator.decoders.predict import Reading, decode_iteratively, decode_one_step, predict
from conservator.field.composition import Composition
from conservator.field.cost import Cost
from conservator.field.folds import Schedule
from conservator.field.infer import infer_by_ascent, infer_globally, infer_maximum, infer_with_bayes
from conservator.field.lattice import simplex_lattice

SIZE = 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2):
    return [BigramExpert.random(SIZE, 2.0, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(rows, length, seed=0, rate=0.5):
    return MaskChannel(SIZE, rate).corrupt(torch.randint(SIZE, (rows, length), generator=seeded(seed)), seeded(seed))


def some_field(rows, length, experts, seed=0):
    return torch.rand(rows, length, experts, generator=seeded(seed), dtype=torch.float64).softmax(-1)


def pools(experts, observation, field):
    """The composed log-probabilities at every position, one sequence at a time."""
    tokens = observation.tokens.masked_fill(observation.hidden, 0)
    said = torch.stack([expert.log_probs(tokens, observation.hidden) for expert in experts], dim=-1)
    return torch.log_softmax((said * field[:, :, None]).sum(-1), dim=-1)


@given(seed=st.integers(0, 30), length=st.integers(1, 8))
def test_one_step_takes_the_mode_of_the_pool_and_copies_the_rest(seed, length):
    experts, observation = bigrams(), masked(3, length, seed)
    field = some_field(3, length, 2, seed)
    found = decode_one_step(experts, observation, Composition.of_field(field))
    expected = pools(experts, observation, field)
    hidden = observation.hidden
    assert torch.equal(found.tokens[~hidden], observation.tokens[~hidden])
    assert (found.confidence[~hidden] == 1).all()
    assert torch.equal(found.tokens[hidden], expected.argmax(-1)[hidden])
    torch.testing.assert_close(found.confidence[hidden], expected.max(-1).values.exp()[hidden], rtol=1e-5, atol=1e-6)
    assert found.cost.evaluations == 2 * int(hidden.any(-1).sum())


def test_the_predictive_is_the_average_of_pools():
    experts, observation = bigrams(3), masked(2, 6)
    weights = torch.tensor(simplex_lattice(3, 2))
    states = torch.rand(2, 6, 6, generator=seeded(), dtype=torch.float64).softmax(-1)
    composition = Composition.of_states(states, weights)
    expected = sum(
        states[:, :, [s]] * pools(experts, observation, weights[s].expand(2, 6, 3)).exp() for s in range(6)
    ).log()
    tokens = observation.tokens.masked_fill(observation.hidden, 0)
    count = 0
    for said, log_probs in predict(experts, tokens, observation.hidden, composition, Cost()):
        torch.testing.assert_close(log_probs.double(), expected[said.sequence, said.position], rtol=1e-4, atol=1e-5)
        count += len(log_probs)
    assert count == int(observation.hidden.sum())
    torch.testing.assert_close(composition.mean().sum(-1), torch.ones(2, 6, dtype=torch.float64))


@given(seed=st.integers(0, 20))
def test_many_steps_fill_the_surest_first_and_read_it(seed):
    """One token a step: the same as doing it by hand."""
    experts, observation = bigrams(), masked(1, 5, seed)
    field = some_field(1, 5, 2, seed)
    found = decode_iteratively(experts, observation, Composition.of_field(field), steps=5)
    tokens, hidden = observation.tokens.masked_fill(observation.hidden, 0), observation.hidden.clone()
    confidence = torch.ones(1, 5, dtype=torch.float64)
    while hidden.any():
        here = MaskChannel(SIZE, 0.5).observe(torch.where(hidden, SIZE, tokens))
        best, choice = pools(experts, here, field)[0].max(-1)
        place = int(best.masked_fill(~hidden[0], -np.inf).argmax())
        tokens[0, place], confidence[0, place] = choice[place], best[place].exp()
        hidden[0, place] = False
    assert torch.equal(found.tokens, tokens)
    torch.testing.assert_close(found.confidence, confidence, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 20), steps=st.integers(1, 12))
def test_any_number_of_steps_fills_everything_and_keeps_what_is_visible(seed, steps):
    experts, observation = bigrams(), masked(3, 7, seed)
    composition = Composition.of_field(some_field(3, 7, 2, seed))
    found = decode_iteratively(experts, observation, composition, steps=steps)
    visible = ~observation.hidden
    assert torch.equal(found.tokens[visible], observation.tokens[visible])
    assert ((found.tokens >= 0) & (found.tokens < SIZE)).all()
    assert found.cost.evaluations <= 2 * 3 * steps
    if steps == 1:
        alone = decode_one_step(experts, observation, composition)
        assert torch.equal(found.tokens, alone.tokens)


def test_the_own_context_is_all_that_an_expert_sees():
    experts, observation = bigrams(), masked(1, 8, rate=0.3)
    field = torch.eye(2, dtype=torch.float64)[torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])][None]
    reading = Reading(own_context=0.05)
    tokens = observation.tokens.masked_fill(observation.hidden, 0)
    for said, _ in predict(experts, tokens, observation.hidden, Composition.of_field(field), Cost(), reading):
        for number, expert in enumerate(experts):
            foreign = field[..., number] < 0.05
            alone = expert.log_probs(tokens, observation.hidden | foreign)[0]
            torch.testing.assert_close(said.log_probs[number], alone[said.position].float())


def test_nothing_hidden_costs_nothing():
    observation = MaskChannel(SIZE, 0.0).observe(torch.zeros(2, 4, dtype=torch.long))
    for decode in (decode_one_step, decode_iteratively):
        found = decode(bigrams(), observation, Composition.of_field(some_field(2, 4, 2)))
        assert torch.equal(found.tokens, observation.tokens)
        assert found.cost.evaluations == 0


def test_no_steps_are_refused():
    with pytest.raises(ConservatorError, match="at least one"):
        decode_iteratively(bigrams(), masked(1, 3), Composition.of_field(some_field(1, 3, 2)), steps=0)


ENGINES = {"bayes": infer_with_bayes, "global": infer_globally, "map": infer_maximum, "eg": infer_by_ascent}
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())


@engines
def test_every_engine_gives_a_field_its_cost_and_follows_from_the_seed(engine):
    experts, observation = bigrams(), masked(2, 9, rate=0.3)
    found = engine(experts, observation, seeded())
    torch.testing.assert_close(found.field.sum(-1), torch.ones(2, 9, dtype=torch.float64))
    torch.testing.assert_close(found.composition.mean(), found.field)
    assert found.informed.all()
    assert len(found.outcomes) == 2
    assert 0 < found.cost.evaluations <= 2 * 2 * 6
    assert found.cost.arithmetic_seconds >= 0
    assert torch.equal(found.field, engine(experts, observation, seeded()).field)


@engines
def test_one_expert_has_all_the_weight(engine):
    assert (engine(bigrams(1), masked(2, 5), seeded()).field == 1).all()


@engines
def test_where_nothing_is_visible_the_field_is_the_priors_and_that_is_said(engine):
    channel = MaskChannel(SIZE, 0.5)
    observation = channel.observe(torch.tensor([[SIZE] * 6, [0, 1, SIZE, 0, 1, 2]]))
    found = engine(bigrams(), observation, seeded())
    assert found.informed.tolist() == [False, True]
    torch.testing.assert_close(found.field[0], torch.full((6, 2), 0.5, dtype=torch.float64))


@engines
def test_a_single_sequence_has_to_be_a_batch_of_one(engine):
    observation = MaskChannel(SIZE, 0.5).observe(torch.tensor([0, 1]))
    with pytest.raises(ConservatorError, match="it must be"):
        engine(bigrams(), observation, seeded())


@engines
def test_regions_are_told_apart(engine):
    """Two experts that each know one half of the sequence: tokens that count up, and tokens that count down."""
    up = 4.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")]
    tokens = torch.cat([torch.arange(20) % SIZE, -torch.arange(20) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    found = engine(experts, observation, seeded())
    if engine is infer_globally:
        assert (found.field == found.field[:, :1]).all()
    else:
        truth = torch.arange(40) >= 20
        assert (found.regions[0].argmax(-1) == truth).double().mean() > 0.9


def test_an_overwritten_token_is_overturned():
    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [BigramExpert(torch.zeros(SIZE), up, "up"), BigramExpert(torch.zeros(SIZE), up.T, "down")]
    clean = torch.cat([torch.arange(30) % SIZE, -torch.arange(30) % SIZE])[None]
    observation = ReplacementChannel(SIZE, 0.2).corrupt(clean, seeded(3))
    inferred = infer_with_bayes(experts, observation, seeded())
    found = decode_with_channel(experts, observation, inferred, 5, seeded())
    before, after = ((tokens == clean).double().mean() for tokens in (observation.tokens, found.tokens))
    assert before < 0.9
    assert after > before + 0.05
    assert found.cost.evaluations == 5 * 2


def test_under_a_mask_channel_the_channels_decoder_is_the_one_step_decoder():
    experts, observation = bigrams(), masked(2, 8)
    inferred = infer_with_bayes(experts, observation, seeded())
    with_channel = decode_with_channel(experts, observation, inferred, 5, seeded())
    assert with_channel.cost.evaluations == 2 * 2  # what is visible is certain: nothing of it is read again
    one_step = decode_one_step(experts, observation, inferred.composition)
    assert torch.equal(with_channel.tokens, one_step.tokens)
    torch.testing.assert_close(with_channel.confidence, one_step.confidence)


def test_after_the_first_repeat_an_expert_reads_what_may_be_its_own():
    seen = {"up": [], "down": []}

    class Watching(BigramExpert):
        def log_probs(self, tokens, hidden, kappa=0.0):
            seen[self.spec.name].append(hidden)
            return super().log_probs(tokens, hidden, kappa)

    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [Watching(torch.zeros(SIZE), up, "up"), Watching(torch.zeros(SIZE), up.T, "down")]
    tokens = torch.cat([torch.arange(40) % SIZE, -torch.arange(40) % SIZE])[None]
    observation = MaskChannel(SIZE, 0.1).corrupt(tokens, seeded())
    infer_with_bayes(experts, observation, seeded(), schedule=Schedule(2, 2))
    first, second = (torch.cat(seen["up"]).split(2), torch.cat(seen["down"]).split(2))
    foreign = torch.arange(80) >= 50  # well inside the part that counts down
    assert torch.equal(first[0], second[0])  # the first repeat hides the same from both
    assert first[1][:, foreign].all()
    assert not second[1][:, foreign].all()
    assert not first[1][:, torch.arange(80) < 30].all()
    for hidden in seen.values():
        hidden.clear()
    infer_with_bayes(experts, observation, seeded(), schedule=Schedule(2, 2), own_context=0.0)
    assert torch.equal(torch.cat(seen["up"]), torch.cat(seen["down"]))


def test_where_one_composition_fits_a_whole_sequence_nothing_is_foreign():
    hidden_from = []

    class Watching(BigramExpert):
        def log_probs(self, tokens, hidden, kappa=0.0):
            hidden_from.append(hidden)
            return super().log_probs(tokens, hidden, kappa)

    up = 6.0 * torch.eye(SIZE).roll(1, dims=1)
    experts = [Watching(torch.zeros(SIZE), matrix, name) for name, matrix in (("up", up), ("down", up.T))]
    observation = MaskChannel(SIZE, 0.1).corrupt((torch.arange(40) % SIZE)[None], seeded())
    found = infer_globally(experts, observation, seeded(), schedule=Schedule(2, 2))
    assert found.field[0, 0, 0] > 0.8
    assert torch.equal(torch.cat(hidden_from[::2]), torch.cat(hidden_from[1::2]))
