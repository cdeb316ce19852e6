"""The meter: it counts network evaluations and seconds, reports progress, and says when time is over."""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Item = TypeVar("Item", covariant=True)
Progress = Callable[[str, float], None]  # called with the name of a stage and the share of it that is done


class OutOfTimeError(Exception):
    """The time that the work may take is over. It is caught where there is something to keep, and nowhere else.

    Attributes:
        stage: what was being done, or was to begin.
    """

    def __init__(self, stage: str) -> None:
        """Name the stage."""
        super().__init__(f"time ran out: {stage}")
        self.stage = stage


class Listed(Sized, Iterable[Item], Protocol[Item]):
    """Items whose number is known."""


@dataclass(frozen=True)
class Cost:
    """The cost of a computation.

    Attributes:
        evaluations: how many sequences experts have read, summed over experts; the same on every machine.
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
class Spent:
    """The cost of a ``with`` block, which is set when the block ends."""

    cost: Cost = field(default_factory=Cost)


class Meter:
    """Counts the evaluations of experts, and reports progress.

    Loops over ``steps`` may be nested. The share that is reported is that of the whole stage; it assumes that all steps
    of a loop take the same time. When time is over, no stage, step or evaluation begins; one that has begun ends, and
    what it found can be kept.
    """

    def __init__(
        self,
        progress: Progress | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin to count.

        Args:
            progress: is called at every step and after every evaluation; an exception that it raises ends the work.
            seconds: how long the work may take, from now on; None sets no limit.
            clock: tells the seconds.
        """
        self.progress, self.clock = progress, clock
        self.deadline = None if seconds is None else clock() + seconds
        self.evaluations, self.expert_seconds = 0, 0.0
        self._stage, self._share, self._width = "", 0.0, 1.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the progress of a ``with`` block under ``name``, with a share from 0 to 1."""
        before = self._stage, self._share, self._width
        self._stage, self._share, self._width = name, 0.0, 1.0
        try:
            self.check()
            self.tell()
            yield
            self._share = 1.0
            self.tell()
        finally:  # also after an exception, so that the next stage begins at 0
            self._stage, self._share, self._width = before

    def steps(self, items: Listed[Item]) -> Iterator[Item]:
        """Iterate over ``items``; each counts as an equal part of the step of the loop around this one."""
        begin, width = self._share, self._width
        for number, item in enumerate(items):
            self._share, self._width = begin + width * number / len(items), width / len(items)
            self.check()
            self.tell()
            yield item
        self._share, self._width = begin + width, width

    def tell(self) -> None:
        """Call ``progress`` with the current stage and share."""
        if self.progress is not None and self._stage:
            self.progress(self._stage, min(1.0, self._share))

    def check(self) -> None:
        """Raise an OutOfTimeError if time is over."""
        if self.deadline is not None and self.clock() >= self.deadline:
            raise OutOfTimeError(self._stage)

    @contextmanager
    def evaluating(self, sequences: int) -> Iterator[None]:
        """Count and time a call of an expert with ``sequences`` sequences."""
        self.check()
        began = self.clock()
        yield
        self.expert_seconds += self.clock() - began
        self.evaluations += sequences
        self.tell()

    @contextmanager
    def measure(self) -> Iterator[Spent]:
        """Measure the cost of a ``with`` block; time that is not spent in experts counts as arithmetic."""
        spent = Spent()
        began, evaluations, seconds = self.clock(), self.evaluations, self.expert_seconds
        yield spent
        expert_seconds = self.expert_seconds - seconds
        arithmetic = self.clock() - began - expert_seconds
        spent.cost = Cost(self.evaluations - evaluations, expert_seconds, arithmetic)
