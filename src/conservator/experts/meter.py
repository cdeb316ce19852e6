"""What restoring costs, and how far it is: network evaluations, seconds, and the share of the work that is done."""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Item = TypeVar("Item", covariant=True)
Progress = Callable[[str, float], None]  # is told the stage and the share of it that is done


class Listed(Sized, Iterable[Item], Protocol[Item]):
    """Items whose number is known."""


@dataclass(frozen=True)
class Cost:
    """What was spent.

    Attributes:
        evaluations: sequences read, times experts; no machine changes it.
        expert_seconds: time spent in the experts.
        arithmetic_seconds: time spent in everything else.
    """

    evaluations: int = 0
    expert_seconds: float = 0.0
    arithmetic_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """All of the time."""
        return self.expert_seconds + self.arithmetic_seconds

    def __add__(self, other: "Cost") -> "Cost":
        """Both together."""
        return Cost(
            self.evaluations + other.evaluations,
            self.expert_seconds + other.expert_seconds,
            self.arithmetic_seconds + other.arithmetic_seconds,
        )


@dataclass
class Spent:
    """The cost of a block, known when it has ended."""

    cost: Cost = field(default_factory=Cost)


class Meter:
    """Counts what experts are asked, and tells how far the work is.

    Loops over ``steps`` may stand inside each other: the share that is told is that of the whole stage, if every step
    of a loop takes as long as any other of the same loop.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        """Tell ``progress`` after every step and every evaluation; what it raises ends the work."""
        self.progress = progress
        self.evaluations, self.expert_seconds = 0, 0.0
        self._stage, self._share, self._width = "", 0.0, 1.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of the work with a name of its own and a share from 0 to 1."""
        before = self._stage, self._share, self._width
        self._stage, self._share, self._width = name, 0.0, 1.0
        try:
            self.tell()
            yield
            self._share = 1.0
            self.tell()
        finally:  # also where the work was ended, so that the next stage begins anew
            self._stage, self._share, self._width = before

    def steps(self, items: Listed[Item]) -> Iterator[Item]:
        """Go through ``items``, each an equal part of the step that this loop stands in."""
        begin, width = self._share, self._width
        for number, item in enumerate(items):
            self._share, self._width = begin + width * number / len(items), width / len(items)
            self.tell()
            yield item
        self._share, self._width = begin + width, width

    def tell(self) -> None:
        """Say how far the work is."""
        if self.progress is not None and self._stage:
            self.progress(self._stage, min(1.0, self._share))

    @contextmanager
    def evaluating(self, sequences: int) -> Iterator[None]:
        """Count a call of an expert that reads so many sequences."""
        began = time.perf_counter()
        yield
        self.expert_seconds += time.perf_counter() - began
        self.evaluations += sequences
        self.tell()

    @contextmanager
    def measure(self) -> Iterator[Spent]:
        """Measure the cost of a block: what the experts do not take of its time is arithmetic."""
        spent = Spent()
        began, evaluations, seconds = time.perf_counter(), self.evaluations, self.expert_seconds
        yield spent
        expert_seconds = self.expert_seconds - seconds
        arithmetic = time.perf_counter() - began - expert_seconds
        spent.cost = Cost(self.evaluations - evaluations, expert_seconds, arithmetic)
