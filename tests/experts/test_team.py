"""Teams: windows, batches, active experts, and errors for experts that cannot be composed."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, ExpertSpec, Predictions, Team, UniformSource, copy_visible
from conservator.experts.team import TeamConfig
from conservator.field import Folds, hide
from conservator.reference import BigramExpert, CategoricalExpert
from conservator.vocabularies import BYTES, NumberedVocabulary
from support.fakes import FakeExpert
from support.gathering import gather
from support.tables import table_of

SIZE = 4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bigrams(count=2, scale=1.5):
    return [BigramExpert.random(SIZE, scale, seeded(seed), f"expert {seed}") for seed in range(count)]


def masked(length, seed=0, rate=0.3, rows=1):
    tokens = torch.randint(SIZE, (rows, length), generator=seeded(seed))
    return MaskChannel(SIZE, rate).corrupt(tokens, seeded(seed + 1))


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary of text, of which there may be another of the same size."""

    size: int
    fingerprint: str
    constraint = None

    @property
    def mask(self):
        return self.size


class UniformExpert:
    """Predicts the uniform distribution, or the result of ``returned``."""

    def __init__(self, name="table", vocabulary=None, returned=None, **spec):
        self.spec = ExpertSpec(name, vocabulary or NumberedVocabulary(SIZE), **spec)
        self.returned = returned

    def predict(self, context, at):
        rows = torch.zeros(len(at[0]), self.spec.vocabulary.size).log_softmax(-1)
        return copy_visible(rows, context, at) if self.returned is None else self.returned(rows)


class WithoutSpec:
    def predict(self, context, at):
        raise AssertionError


class WithoutPredict:
    spec = ExpertSpec("mute", NumberedVocabulary(SIZE))


class PredictIsText(WithoutPredict):
    predict = "everything"


BAD = {
    "none": ([], "no experts: at least one is needed"),
    "not an expert": ([3], "got an object of type int without the attribute spec"),
    "without a spec": ([WithoutSpec()], r"type WithoutSpec without the attribute spec \(an ExpertSpec\)"),
    "without predict": ([WithoutPredict()], r"type WithoutPredict without the method predict"),
    "predict is not callable": ([PredictIsText()], r"without the method predict\(context, at\)"),
    "a uniform source": ([UniformExpert("blind", source=UniformSource())], "'blind' has a uniform source"),
    "two sizes": (
        [UniformExpert("one"), UniformExpert("two", NumberedVocabulary(5))],
        "different vocabularies: .*'one': .*'two': ",
    ),
    "two vocabularies of one size": (
        [UniformExpert("one", Tokenizer(256, "english")), UniformExpert("two", Tokenizer(256, "french"))],
        "must have the same vocabulary, got different vocabularies: {'one': 'english', 'two': 'french'}",
    ),
    "bytes and numbers": (
        [UniformExpert("one", BYTES), UniformExpert("two", NumberedVocabulary(256))],
        "different vocabularies",
    ),
}


@pytest.mark.parametrize(("experts", "message"), BAD.values(), ids=BAD.keys())
def test_experts_that_cannot_be_composed_are_rejected(experts, message):
    with pytest.raises(ConservatorError, match=message):
        Team(experts)


WRONG = {
    "one row too few": (lambda rows: rows[1:], r"of the shape \(3, 4\) .*, got torch.float32 of the shape \(2, 4\)"),
    "a token too many": (lambda rows: torch.cat([rows, rows[:, :1]], dim=1), r"got .* shape \(3, 5\)"),
    "a table of all positions": (lambda rows: rows.expand(2, 3, 4), r"got .* shape \(2, 3, 4\)"),
    "whole numbers": (lambda rows: rows.long(), "got torch.int64 of the shape"),
    "no tensor": (lambda rows: rows.tolist(), "got list"),
    "nan": (lambda rows: rows.index_fill(1, torch.tensor([2]), torch.nan), "finite log-probabilities, got nan or inf"),
    "minus infinity": (
        lambda rows: rows.index_fill(1, torch.tensor([2]), -torch.inf),
        "finite log-probabilities, got nan or inf",
    ),
    "infinities of both signs": (
        lambda rows: torch.stack([rows[0] * torch.inf, -rows[1] * torch.inf, rows[2]]),
        "finite log-probabilities, got nan or inf",
    ),
}


@pytest.mark.parametrize(("returned", "message"), WRONG.values(), ids=WRONG.keys())
def test_invalid_predictions_are_rejected(returned, message):
    team = Team([UniformExpert("good"), UniformExpert("bad", returned=returned)])
    tokens = torch.zeros(2, 5, dtype=torch.long)
    at = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 4])
    with pytest.raises(ConservatorError, match=rf"expert 'bad': predict\(\) must return.*{message}"):
        team.predict(Context(tokens, tokens == 0), at)
    assert team.meter.evaluations == 2  # of the valid expert


def test_a_channel_with_another_vocabulary_size_is_rejected():
    observation = MaskChannel(SIZE + 1, 0.2).observe(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(ConservatorError, match="the channel has 5 tokens, the experts 4"):
        Team(bigrams()).check(observation)


def test_properties_of_a_team():
    experts = bigrams(3)
    team = Team(experts)
    assert (len(team), team.names) == (3, ("expert 0", "expert 1", "expert 2"))
    assert team.vocabulary == NumberedVocabulary(SIZE)
    single = team.subset([2])
    assert single.experts == (experts[2],)
    assert single.meter is team.meter
    short = [CategoricalExpert(torch.zeros(length, SIZE)) for length in (9, 7)]
    assert Team([*experts, *short]).context == 7
    assert Team([*experts]).context >= 4096


def test_positions_can_be_hidden_from_single_experts():
    experts, observation = bigrams(3), masked(6, rows=2)
    hidden_from = torch.rand(2, 6, 3, generator=seeded()) < 0.4
    context = Context(observation.readable, observation.hidden)
    at = context.everywhere()
    log_probs = Team(experts).predict(context, at, hidden_from)
    for index, expert in enumerate(experts):
        expected = table_of(expert, observation.readable, observation.hidden | hidden_from[..., index])
        torch.testing.assert_close(log_probs[index], expected[at])


def test_predictions_are_conditionals_with_the_fold_hidden():
    experts, observation = bigrams(), masked(9, rows=2)
    patterns = Folds(3).draw(~observation.lost, seeded())
    hidden = hide(patterns, observation, None, seeded())
    team = Team(experts)
    with team.meter.measure() as measured:
        parts = list(team.read(observation.tokens, hidden, patterns))
    assert measured.cost.evaluations == 2 * 3 * 2
    assert sum(len(part.position) for part in parts) == int((~observation.lost).sum())
    for part in parts:
        assert part.log_probs.dtype == torch.float32
        for row, (sequence, position) in enumerate(zip(part.sequence.tolist(), part.position.tolist(), strict=True)):
            pattern = int(patterns[sequence, :, position].nonzero())
            for index, expert in enumerate(experts):
                expected = table_of(expert, observation.tokens[sequence][None], hidden[sequence, pattern][None])
                torch.testing.assert_close(part.log_probs[index, row], expected[0, position].float())


@given(
    length=st.integers(1, 60),
    context=st.integers(8, 20),
    rows=st.integers(1, 3),
    seed=st.integers(0, 100),
    batch_bytes=st.sampled_from([1, 500, 10**6]),
)
def test_every_requested_position_is_predicted_once_per_pattern(length, context, rows, seed, batch_bytes):
    """For all windows and batches; requested positions need not be hidden."""
    team = Team([CategoricalExpert(torch.randn(context, SIZE, generator=seeded(n)), f"{n}") for n in range(2)])
    observation = masked(length, seed, rows=rows)
    requested = torch.rand(rows, 2, length, generator=seeded(seed)) < 0.4
    hidden = requested | observation.hidden[:, None]
    count = torch.zeros(rows, length, dtype=torch.long)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conservator.experts.team.TEAM_CONFIG", TeamConfig(batch_bytes=batch_bytes))
        for part in team.read(observation.tokens, hidden, requested):
            count.index_put_((part.sequence, part.position), torch.ones_like(part.position), accumulate=True)
            assert part.log_probs.shape == (2, len(part.position), SIZE)
    assert torch.equal(count, requested.sum(1))


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 3000))
def test_parts_are_the_predictions_in_their_order(count, experts, size):
    log_probs = torch.randn(experts, count, 7, generator=seeded(count))
    whole = Predictions(torch.arange(count), torch.arange(count) + 100, log_probs)
    parts = list(whole.parts(size))
    for name, axis in (("sequence", 0), ("position", 0), ("log_probs", 1)):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts], dim=axis), getattr(whole, name))
    assert all(part.log_probs.numel() * 4 <= max(size, 4 * experts * 7) for part in parts)


def test_experts_without_maximum_length_are_evaluated_in_windows(monkeypatch):
    lengths = []

    class RecordingExpert(BigramExpert):
        def predict(self, context, at):
            lengths.append(context.tokens.shape[1])
            return super().predict(context, at)

    config = TeamConfig(default_context=16, batch_bytes=1)
    monkeypatch.setattr("conservator.experts.team.TEAM_CONFIG", config)
    expert = RecordingExpert(torch.zeros(SIZE), torch.zeros(SIZE, SIZE))
    gather([expert], masked(50), Folds(2), seeded(), torch.ones(1, 1))
    assert 8 < max(lengths) <= 16


@given(st.integers(0, 99), st.integers(5, 900))
def test_only_active_experts_are_evaluated(seed, length):
    """Their predictions are unchanged, and every position is predicted once."""
    experts = [FakeExpert(number, 64) for number in range(3)]
    tokens = torch.randint(256, (1, length), generator=seeded(seed))
    lost = (torch.arange(length) % 7 == seed % 7)[None, None]
    active_blocks = torch.rand(1, length // 100 + 1, 3, generator=seeded(seed)) < 0.5
    active = active_blocks.repeat_interleave(100, dim=1)[:, :length]
    team = Team(experts)
    whole = torch.zeros(3, length, 256)
    for part in team.read(tokens, lost, lost):
        whole[:, part.position] = part.log_probs
    evaluations = sum(expert.evaluations for expert in experts)
    predicted = []
    for part in team.read(tokens, lost, lost, active=active):
        needed = active[0, part.position].T
        torch.testing.assert_close(part.log_probs[needed], whole[:, part.position][needed])
        assert torch.isfinite(part.log_probs).all()
        predicted += part.position.tolist()
    assert sorted(predicted) == lost[0, 0].nonzero()[:, 0].tolist()
    if not active[lost[0]].any():
        assert sum(expert.evaluations for expert in experts) == evaluations
    if active.all():
        assert sum(expert.evaluations for expert in experts) == 2 * evaluations
