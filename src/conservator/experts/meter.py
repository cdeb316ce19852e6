"""The meter: counts network evaluations and seconds, reports progress, and enforces a time limit."""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Item = TypeVar("Item", covariant=True)
Progress = Callable[[str, float], None]  # called with the name of a stage and its completed fraction


class OutOfTimeError(Exception):
    """The time limit is reached. It is caught only where a partial result can be returned.

    Attributes:
        stage: the stage in progress, or the one about to begin.
    """

    def __init__(self, stage: str) -> None:
        """Store the stage."""
        super().__init__(f"time ran out: {stage}")
        self.stage = stage


class SizedIterable(Sized, Iterable[Item], Protocol[Item]):
    """An iterable with a length."""


@dataclass(frozen=True)
class Cost:
    """The cost of a computation.

    Attributes:
        evaluations: number of sequences evaluated, summed over experts; the same on every machine.
        expert_seconds: time spent in the experts.
        arithmetic_seconds: time spent in everything else.
    """

    evaluations: int = 0
    expert_seconds: float = 0.0
    arithmetic_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The total time."""
        return self.expert_seconds + self.arithmetic_seconds

    def __add__(self, other: "Cost") -> "Cost":
        """The sum of two costs."""
        return Cost(
            self.evaluations + other.evaluations,
            self.expert_seconds + other.expert_seconds,
            self.arithmetic_seconds + other.arithmetic_seconds,
        )


@dataclass
class MeasuredCost:
    """The cost of a ``with`` block; it is set when the block ends."""

    cost: Cost = field(default_factory=Cost)


class Meter:
    """Count the evaluations of experts, and report progress.

    Loops over ``steps`` may be nested. The reported fraction refers to the whole stage; it assumes that all steps of a
    loop take the same time. After the time limit, no stage, step or evaluation begins; those in progress are completed,
    and their results can be used.
    """

    def __init__(
        self,
        progress: Progress | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start the clock.

        Args:
            progress: called at every step and after every evaluation; an exception that it raises stops the work.
            seconds: time limit from now on; None for no limit.
            clock: returns the current time in seconds.
        """
        self.progress, self.clock = progress, clock
        self.deadline = None if seconds is None else clock() + seconds
        self.evaluations, self.expert_seconds = 0, 0.0
        self._stage, self._fraction, self._width = "", 0.0, 1.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the progress of a ``with`` block under ``name``, with a fraction from 0 to 1."""
        before = self._stage, self._fraction, self._width
        self._stage, self._fraction, self._width = name, 0.0, 1.0
        try:
            self.check()
            self.report()
            yield
            self._fraction = 1.0
            self.report()
        finally:  # also after an exception, so that the next stage starts at 0
            self._stage, self._fraction, self._width = before

    def steps(self, items: SizedIterable[Item]) -> Iterator[Item]:
        """Iterate over ``items``; each counts as an equal part of the current step of the enclosing loop."""
        begin, width = self._fraction, self._width
        for number, item in enumerate(items):
            self._fraction, self._width = begin + width * number / len(items), width / len(items)
            self.check()
            self.report()
            yield item
        self._fraction, self._width = begin + width, width

    def report(self) -> None:
        """Call ``progress`` with the current stage and fraction."""
        if self.progress is not None and self._stage:
            self.progress(self._stage, min(1.0, self._fraction))

    def check(self) -> None:
        """Raise an OutOfTimeError after the time limit."""
        if self.deadline is not None and self.clock() >= self.deadline:
            raise OutOfTimeError(self._stage)

    @contextmanager
    def evaluating(self, sequences: int) -> Iterator[None]:
        """Count and time the evaluation of an expert on ``sequences`` sequences."""
        self.check()
        started = self.clock()
        yield
        self.expert_seconds += self.clock() - started
        self.evaluations += sequences
        self.report()

    @contextmanager
    def measure(self) -> Iterator[MeasuredCost]:
        """Measure the cost of a ``with`` block; time outside the experts counts as arithmetic."""
        measured = MeasuredCost()
        started, evaluations, seconds = self.clock(), self.evaluations, self.expert_seconds
        yield measured
        expert_seconds = self.expert_seconds - seconds
        arithmetic = self.clock() - started - expert_seconds
        measured.cost = Cost(self.evaluations - evaluations, expert_seconds, arithmetic)
