"""The meter: shares that never fall, costs that nest, and work that can be ended."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts import Context, Cost, Meter, OutOfTimeError, Team
from conservator.reference import BigramExpert

loops = st.recursive(st.none(), lambda inside: st.lists(inside, max_size=4), max_leaves=20)


def go_through(meter, loop):
    """Loops inside loops; a leaf is a call of an expert."""
    if loop is None:
        with meter.evaluating(1):
            pass
        return
    for part in meter.steps(loop):
        go_through(meter, part)


def leaves(loop):
    return 1 if loop is None else sum(map(leaves, loop))


@given(st.lists(loops, min_size=1, max_size=3))
def test_shares_never_fall_and_end_at_1(stages):
    told = []
    meter = Meter(lambda stage, share: told.append((stage, share)))
    for number, loop in enumerate(stages):
        told.clear()
        with meter.stage(str(number)):
            go_through(meter, loop)
        assert {stage for stage, _ in told} == {str(number)}
        shares = [share for _, share in told]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0, 1)
        assert len(shares) >= 2 + leaves(loop)
    assert meter.evaluations == sum(map(leaves, stages))
    told.clear()
    go_through(meter, stages[0])
    assert told == []  # nothing is told outside a stage


def test_equal_steps_are_equal_shares():
    told = []
    meter = Meter(lambda _, share: told.append(share))
    with meter.stage("work"):
        for _ in meter.steps(range(2)):
            for _ in meter.steps("ab"):
                pass
    assert told == pytest.approx([0, 0, 0, 0.25, 0.5, 0.5, 0.75, 1])


def test_a_stage_inside_a_stage_leaves_the_outer_one_where_it_was():
    told = []
    meter = Meter(lambda *what: told.append(what))
    with meter.stage("outer"):
        for _ in meter.steps(range(2)):
            with meter.stage("inner"):
                pass
    assert told == [
        ("outer", 0.0),
        ("outer", 0.0),
        ("inner", 0.0),
        ("inner", 1.0),
        ("outer", 0.5),
        ("inner", 0.0),
        ("inner", 1.0),
        ("outer", 1.0),
    ]


@given(loops, st.integers(0, 30))
def test_what_progress_raises_ends_the_work_and_leaves_the_meter_usable(loop, patience):
    left, told = [patience], []

    def progress(stage, share):
        told.append((stage, share))
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    meter = Meter(progress)
    ended = False
    try:
        with meter.measure(), meter.stage("first"):
            go_through(meter, loop)
    except KeyboardInterrupt:
        ended = True
        assert len(told) == patience + 1  # nothing was done after it
    assert ended == (len(told) > patience)
    left[0], before = 1000, meter.evaluations
    told.clear()
    with meter.measure() as spent, meter.stage("second"):
        go_through(meter, [None, [None, None]])
    assert [stage for stage, _ in told] == ["second"] * len(told)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert spent.cost.evaluations == meter.evaluations - before == 3


@given(loops, st.integers(0, 30))
def test_when_time_is_over_nothing_more_begins(loop, seconds):
    now = [0]

    def work(part):
        if part is not None:
            for one in meter.steps(part):
                work(one)
            return
        with meter.evaluating(1):
            assert now[0] < seconds
            now[0] += 1

    meter = Meter(seconds=seconds, clock=lambda: now[0])
    ended = None
    try:
        with meter.stage("work"):
            work(loop)
    except OutOfTimeError as error:
        ended = error.stage
    assert meter.evaluations == now[0] == min(leaves(loop), seconds)  # one that has begun counts
    assert ended in ((None, "work") if now[0] == leaves(loop) else ("work",))
    if now[0] >= seconds:
        with pytest.raises(OutOfTimeError, match="next"), meter.stage("next"):
            raise AssertionError("it has begun")


def test_costs_nest():
    meter = Meter()
    with meter.measure() as outer:
        with meter.evaluating(2):
            pass
        with meter.measure() as first, meter.evaluating(3):
            pass
        with meter.measure() as second:
            pass
    assert (first.cost.evaluations, second.cost.evaluations, outer.cost.evaluations) == (3, 0, 5)
    assert outer.cost.expert_seconds >= first.cost.expert_seconds > 0
    assert second.cost.expert_seconds == 0
    for spent in (first, second, outer):
        assert spent.cost.arithmetic_seconds >= 0
        assert spent.cost.seconds == spent.cost.expert_seconds + spent.cost.arithmetic_seconds
    assert outer.cost.seconds >= first.cost.seconds + second.cost.seconds


def test_costs_add():
    total = Cost(1, 0.5, 0.25) + Cost(2, 1.0, 1.0)
    assert total == Cost(3, 1.5, 1.25)
    assert total.seconds == 2.75
    assert Cost() + total == total


def test_a_team_counts_the_sequences_that_each_expert_reads():
    experts = [BigramExpert.random(3, 1.0, torch.Generator().manual_seed(seed), f"{seed}") for seed in range(3)]
    team = Team(experts)
    tokens = torch.zeros(5, 4, dtype=torch.long)
    at = torch.tensor([0, 4]), torch.tensor([1, 2])
    with team.meter.measure() as spent:
        team.predict(Context(tokens, tokens == 0), at)
        team.alone(1).predict(Context(tokens[:2], tokens[:2] == 0), (at[0][:1], at[1][:1]))
    assert spent.cost.evaluations == 5 * 3 + 2
