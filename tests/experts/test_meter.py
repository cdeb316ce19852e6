"""The meter: monotone progress, nested costs, and cancellation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conservator.experts import Context, Cost, Meter, OutOfTimeError, Team
from conservator.reference import BigramExpert

loops = st.recursive(st.none(), lambda inside: st.lists(inside, max_size=4), max_leaves=20)


def run_loop(meter, loop):
    """Run nested loops; a leaf is an evaluation of an expert."""
    if loop is None:
        with meter.evaluating(1):
            pass
        return
    for part in meter.steps(loop):
        run_loop(meter, part)


def leaves(loop):
    return 1 if loop is None else sum(map(leaves, loop))


@given(st.lists(loops, min_size=1, max_size=3))
def test_progress_is_monotone_and_ends_at_1(stages):
    reports = []
    meter = Meter(lambda stage, fraction: reports.append((stage, fraction)))
    for number, loop in enumerate(stages):
        reports.clear()
        with meter.stage(str(number)):
            run_loop(meter, loop)
        assert {stage for stage, _ in reports} == {str(number)}
        fractions = [fraction for _, fraction in reports]
        assert fractions == sorted(fractions)
        assert (fractions[0], fractions[-1]) == (0, 1)
        assert len(fractions) >= 2 + leaves(loop)
    assert meter.evaluations == sum(map(leaves, stages))
    reports.clear()
    run_loop(meter, stages[0])
    assert reports == []  # nothing is reported outside a stage


def test_equal_steps_are_equal_fractions():
    reports = []
    meter = Meter(lambda _, fraction: reports.append(fraction))
    with meter.stage("work"):
        for _ in meter.steps(range(2)):
            for _ in meter.steps("ab"):
                pass
    assert reports == pytest.approx([0, 0, 0, 0.25, 0.5, 0.5, 0.75, 1])


def test_a_stage_inside_a_stage_leaves_the_outer_one_where_it_was():
    reports = []
    meter = Meter(lambda *arguments: reports.append(arguments))
    with meter.stage("outer"):
        for _ in meter.steps(range(2)):
            with meter.stage("inner"):
                pass
    assert reports == [
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
def test_an_exception_of_progress_stops_the_work_and_leaves_the_meter_usable(loop, max_calls):
    left, reports = [max_calls], []

    def progress(stage, fraction):
        reports.append((stage, fraction))
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    meter = Meter(progress)
    ended = False
    try:
        with meter.measure(), meter.stage("first"):
            run_loop(meter, loop)
    except KeyboardInterrupt:
        ended = True
        assert len(reports) == max_calls + 1  # nothing is reported after it
    assert ended == (len(reports) > max_calls)
    left[0], before = 1000, meter.evaluations
    reports.clear()
    with meter.measure() as measured, meter.stage("second"):
        run_loop(meter, [None, [None, None]])
    assert [stage for stage, _ in reports] == ["second"] * len(reports)
    fractions = [fraction for _, fraction in reports]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0, 1)
    assert measured.cost.evaluations == meter.evaluations - before == 3


@given(loops, st.integers(0, 30))
def test_nothing_begins_after_the_time_limit(loop, seconds):
    now = [0]

    def work(part):
        if part is not None:
            for step in meter.steps(part):
                work(step)
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
    assert meter.evaluations == now[0] == min(leaves(loop), seconds)  # an evaluation in progress counts
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
    for measured in (first, second, outer):
        assert measured.cost.arithmetic_seconds >= 0
        assert measured.cost.seconds == measured.cost.expert_seconds + measured.cost.arithmetic_seconds
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
    with team.meter.measure() as measured:
        team.predict(Context(tokens, tokens == 0), at)
        team.subset([1]).predict(Context(tokens[:2], tokens[:2] == 0), (at[0][:1], at[1][:1]))
    assert measured.cost.evaluations == 5 * 3 + 2
