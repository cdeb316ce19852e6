"""A team: what it reads, and what it says of experts that cannot be composed."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.channels import MaskChannel
from conservator.errors import ConservatorError
from conservator.experts import Context, ExpertSpec, Predictions, Team, UniformSource, copy_visible
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


class Table:
    """Predicts one row everywhere, or whatever else it is told to return."""

    def __init__(self, name="table", vocabulary=None, returned=None, **spec):
        self.spec = ExpertSpec(name, vocabulary or NumberedVocabulary(SIZE), **spec)
        self.returned = returned

    def predict(self, context, at):
        rows = torch.zeros(len(at[0]), self.spec.vocabulary.size).log_softmax(-1)
        return copy_visible(rows, context, at) if self.returned is None else self.returned(rows)


class Specless:
    def predict(self, context, at):
        raise AssertionError


class Speechless:
    spec = ExpertSpec("mute", NumberedVocabulary(SIZE))


class Talkative(Speechless):
    predict = "everything"


BAD = {
    "none": ([], "no experts: at least one is needed"),
    "no object of ours": ([3], "a int object is no expert: it lacks a spec"),
    "without a spec": ([Specless()], r"a Specless object is no expert: it lacks a spec \(an ExpertSpec\)"),
    "without predict": ([Speechless()], r"a Speechless object is no expert: it lacks a method predict"),
    "predict is no method": ([Talkative()], r"it lacks a method predict\(context, at\)"),
    "a uniform source": ([Table("blind", source=UniformSource())], "'blind' has a uniform source"),
    "two sizes": ([Table("one"), Table("two", NumberedVocabulary(5))], "different vocabularies: .*'one': .*'two': "),
    "two vocabularies of one size": (
        [Table("one", Tokenizer(256, "english")), Table("two", Tokenizer(256, "french"))],
        "different vocabularies: {'one': 'english', 'two': 'french'}; they have to share one",
    ),
    "bytes and numbers": ([Table("one", BYTES), Table("two", NumberedVocabulary(256))], "different vocabularies"),
}


@pytest.mark.parametrize(("experts", "message"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_composed_is_said(experts, message):
    with pytest.raises(ConservatorError, match=message):
        Team(experts)


WRONG = {
    "one row too few": (lambda rows: rows[1:], r"shape \(2, 4\); it must be .* of the shape \(3, 4\)"),
    "a token too many": (lambda rows: torch.cat([rows, rows[:, :1]], dim=1), r"shape \(3, 5\)"),
    "a table of all positions": (lambda rows: rows.expand(2, 3, 4), r"shape \(2, 3, 4\)"),
    "whole numbers": (lambda rows: rows.long(), "torch.int64 of the shape"),
    "no tensor": (lambda rows: rows.tolist(), " list; it must be"),
    "nan": (lambda rows: rows.index_fill(1, torch.tensor([2]), torch.nan), "not a finite number"),
    "minus infinity": (lambda rows: rows.index_fill(1, torch.tensor([2]), -torch.inf), "not a finite number"),
    "infinities of both signs": (
        lambda rows: torch.stack([rows[0] * torch.inf, -rows[1] * torch.inf, rows[2]]),
        "not a finite number",
    ),
}


@pytest.mark.parametrize(("returned", "message"), WRONG.values(), ids=WRONG.keys())
def test_predictions_that_break_the_contract_are_said(returned, message):
    team = Team([Table("good"), Table("bad", returned=returned)])
    tokens = torch.zeros(2, 5, dtype=torch.long)
    at = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 4])
    with pytest.raises(ConservatorError, match=f"the expert 'bad' predicted.*{message}"):
        team.predict(Context(tokens, tokens == 0), at)
    assert team.meter.evaluations == 2  # of the good one


def test_a_channel_of_another_vocabulary_is_said():
    observation = MaskChannel(SIZE + 1, 0.2).observe(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(ConservatorError, match="the channel has 5 tokens, the experts 4"):
        Team(bigrams()).check(observation)


def test_a_team_is_its_experts():
    experts = bigrams(3)
    team = Team(experts)
    assert (len(team), team.names) == (3, ("expert 0", "expert 1", "expert 2"))
    assert team.vocabulary == NumberedVocabulary(SIZE)
    one = team.alone(2)
    assert one.experts == (experts[2],)
    assert one.meter is team.meter
    short = [CategoricalExpert(torch.zeros(length, SIZE)) for length in (9, 7)]
    assert Team([*experts, *short]).context == 7
    assert Team([*experts]).context >= 4096


def test_each_row_is_predicted_with_what_is_hidden_from_its_expert():
    experts, observation = bigrams(3), masked(6, rows=2)
    hidden_from = torch.rand(2, 6, 3, generator=seeded()) < 0.4
    context = Context(observation.readable, observation.hidden)
    at = context.everywhere()
    found = Team(experts).predict(context, at, hidden_from)
    for number, expert in enumerate(experts):
        alone = table_of(expert, observation.readable, observation.hidden | hidden_from[..., number])
        torch.testing.assert_close(found[number], alone[at])


def test_what_is_read_is_the_conditional_with_the_fold_hidden():
    experts, observation = bigrams(), masked(9, rows=2)
    patterns = Folds(3).draw(~observation.lost, seeded())
    hidden = hide(patterns, observation, None, seeded())
    team = Team(experts)
    with team.meter.measure() as spent:
        found = list(team.read(observation.tokens, hidden, patterns))
    assert spent.cost.evaluations == 2 * 3 * 2
    assert sum(len(part.position) for part in found) == int((~observation.lost).sum())
    for part in found:
        assert part.log_probs.dtype == torch.float32
        for place, (sequence, position) in enumerate(zip(part.sequence.tolist(), part.position.tolist(), strict=True)):
            pattern = int(patterns[sequence, :, position].nonzero())
            for number, expert in enumerate(experts):
                alone = table_of(expert, observation.tokens[sequence][None], hidden[sequence, pattern][None])
                torch.testing.assert_close(part.log_probs[number, place], alone[0, position].float())


@given(
    length=st.integers(1, 60),
    context=st.integers(8, 20),
    rows=st.integers(1, 3),
    seed=st.integers(0, 100),
    chunk=st.sampled_from([1, 500, 10**6]),
)
def test_every_wanted_position_is_predicted_once_a_pattern(length, context, rows, seed, chunk):
    """Whatever the windows and the batches; what is wanted need not be what is hidden."""
    team = Team([CategoricalExpert(torch.randn(context, SIZE, generator=seeded(n)), f"{n}") for n in range(2)])
    observation = masked(length, seed, rows=rows)
    wanted = torch.rand(rows, 2, length, generator=seeded(seed)) < 0.4
    hidden = wanted | observation.hidden[:, None]
    count = torch.zeros(rows, length, dtype=torch.long)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conservator.experts.team.CHUNK", chunk)
        for found in team.read(observation.tokens, hidden, wanted):
            count.index_put_((found.sequence, found.position), torch.ones_like(found.position), accumulate=True)
            assert found.log_probs.shape == (2, len(found.position), SIZE)
    assert torch.equal(count, wanted.sum(1))


@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 3000))
def test_parts_are_the_predictions_in_their_order(count, experts, size):
    log_probs = torch.randn(experts, count, 7, generator=seeded(count))
    whole = Predictions(torch.arange(count), torch.arange(count) + 100, log_probs)
    parts = list(whole.parts(size))
    for name, axis in (("sequence", 0), ("position", 0), ("log_probs", 1)):
        assert torch.equal(torch.cat([getattr(part, name) for part in parts], dim=axis), getattr(whole, name))
    assert all(part.log_probs.numel() * 4 <= max(size, 4 * experts * 7) for part in parts)


def test_experts_that_read_any_length_are_read_in_stretches(monkeypatch):
    lengths = []

    class Watching(BigramExpert):
        def predict(self, context, at):
            lengths.append(context.tokens.shape[1])
            return super().predict(context, at)

    monkeypatch.setattr("conservator.experts.team.LONGEST", 16)
    monkeypatch.setattr("conservator.experts.team.CHUNK", 1)
    expert = Watching(torch.zeros(SIZE), torch.zeros(SIZE, SIZE))
    gather([expert], masked(50), Folds(2), seeded(), torch.ones(1, 1))
    assert 8 < max(lengths) <= 16


@given(st.integers(0, 99), st.integers(5, 900))
def test_only_experts_that_are_asked_are_evaluated(seed, length):
    """What they say is the same, and every position is predicted once."""
    experts = [FakeExpert(number, 64) for number in range(3)]
    tokens = torch.randint(256, (1, length), generator=seeded(seed))
    lost = (torch.arange(length) % 7 == seed % 7)[None, None]
    whom = torch.rand(1, length // 100 + 1, 3, generator=seeded(seed)) < 0.5
    asked = whom.repeat_interleave(100, dim=1)[:, :length]
    team = Team(experts)
    whole = torch.zeros(3, length, 256)
    for found in team.read(tokens, lost, lost):
        whole[:, found.position] = found.log_probs
    everyone = sum(expert.evaluations for expert in experts)
    seen = []
    for found in team.read(tokens, lost, lost, asked=asked):
        said = asked[0, found.position].T
        torch.testing.assert_close(found.log_probs[said], whole[:, found.position][said])
        assert torch.isfinite(found.log_probs).all()
        seen += found.position.tolist()
    assert sorted(seen) == lost[0, 0].nonzero()[:, 0].tolist()
    if not asked[lost[0]].any():
        assert sum(expert.evaluations for expert in experts) == everyone
    if asked.all():
        assert sum(expert.evaluations for expert in experts) == 2 * everyone
