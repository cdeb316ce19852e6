"""What inference and decoding cost: network evaluations, which no machine changes, and seconds."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from conservator.experts.expert import Expert, ExpertSpec


class Cost:
    """A counter of what was spent.

    Attributes:
        evaluations: sequences read, times experts.
        expert_seconds: time spent in the experts.
        arithmetic_seconds: time spent in everything else.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self.evaluations = 0
        self.expert_seconds = 0.0
        self.arithmetic_seconds = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.expert_seconds + self.arithmetic_seconds

    def add(self, other: "Cost") -> "Cost":
        """Count what another counter counted, too."""
        self.evaluations += other.evaluations
        self.expert_seconds += other.expert_seconds
        self.arithmetic_seconds += other.arithmetic_seconds
        return self

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a block: what the experts do not take of it is arithmetic."""
        began, before = time.perf_counter(), self.expert_seconds
        yield
        self.arithmetic_seconds += time.perf_counter() - began - (self.expert_seconds - before)


class Counted:
    """An expert that counts what it is asked."""

    def __init__(self, expert: Expert, cost: Cost) -> None:
        """Count the evaluations of ``expert`` in ``cost``."""
        self.expert, self.cost = expert, cost

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""
        return self.expert.spec

    def log_probs(self, tokens: Tensor, hidden: Tensor, kappa: float | Tensor) -> Tensor:
        """What the expert says, on the device of ``tokens``."""
        began = time.perf_counter()
        said = self.expert.log_probs(tokens, hidden, kappa).to(tokens.device)
        self.cost.expert_seconds += time.perf_counter() - began
        self.cost.evaluations += len(tokens)
        return said


def count(experts: Sequence[Expert], cost: Cost) -> list[Counted]:
    """Count what all of them are asked."""
    return [Counted(expert, cost) for expert in experts]
