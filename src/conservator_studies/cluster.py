"""Many workers on many documents, simulated event by event: what failures, stragglers and one driver cost.

A driver hands documents out in order and writes what comes back, one thing after the other. A worker restores one
document at a time while the next one waits at it. Workers fail at random while they work; what they had is handed out
again, and after some time a new worker stands in their place.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np


@dataclass(frozen=True)
class Cluster:
    """Workers and a driver.

    Attributes:
        workers: how many there are.
        start: seconds until a new worker can work.
        driver: seconds of the driver for each document.
        between_failures: seconds of work between failures of a worker, on average; without end if they never fail.
        attempts: a document with which so many workers failed is copied through as it is.
    """

    workers: int
    start: float = 0.0
    driver: float = 0.0
    between_failures: float = math.inf
    attempts: int = 3


@dataclass(frozen=True)
class Run:
    """What came of a simulated run.

    Attributes:
        seconds: from the beginning until the last document was written.
        busy: seconds of work on documents that were finished.
        wasted: seconds of work that was lost in failures.
        failures: how many there were.
        copied: documents that were given up.
    """

    seconds: float
    busy: float
    wasted: float
    failures: int
    copied: int

    def used(self, workers: int) -> float:
        """The share of the time of all workers that went into documents which were finished."""
        return self.busy / (workers * self.seconds) if self.seconds else 0.0


def simulate(cluster: Cluster, work: Sequence[float], generator: np.random.Generator) -> Run:
    """Run a cluster over documents that take so many seconds each, handed out in their order."""
    return Simulation(cluster, work, generator).run()


@dataclass
class Worker:
    """A worker: whether it lives, its document and when it began with it, and the document that waits at it."""

    lives: bool = False
    doing: int | None = None
    begun: float = 0.0
    next: int | None = None
    has_next: bool = False  # whether the next document has arrived


class Simulation:
    """The state of a simulated run."""

    def __init__(self, cluster: Cluster, work: Sequence[float], generator: np.random.Generator) -> None:
        """Take the cluster, the seconds of each document, and what draws failures."""
        self.cluster, self.work, self.generator = cluster, work, generator
        self.workers = [Worker() for _ in range(cluster.workers)]
        self.left, self.tried = deque(range(len(work))), [0] * len(work)
        self.events: list[tuple[float, int, Callable[[float, Worker], None], Worker]] = []
        self.order = count()
        self.free = self.done = self.busy = self.wasted = 0.0  # free: when the driver has nothing to do
        self.failures = self.copied = 0

    def run(self) -> Run:
        """Simulate until every document is done."""
        for worker in self.workers:
            self.plan(self.cluster.start, self.started, worker)
        while self.events:
            now, _, event, worker = heapq.heappop(self.events)
            event(now, worker)
            self.go_on(now, worker)
        return Run(self.done, self.busy, self.wasted, self.failures, self.copied)

    def plan(self, when: float, event: "Callable[[float, Worker], None]", worker: Worker) -> None:
        """Something will happen."""
        heapq.heappush(self.events, (when, next(self.order), event, worker))

    def drive(self, now: float) -> float:
        """When the driver, which does one thing after the other, is done with one more."""
        self.free = max(self.free, now) + self.cluster.driver / 2
        return self.free

    def go_on(self, now: float, worker: Worker) -> None:
        """Let a worker begin with the document that waits at it, and hand it the next one."""
        if worker.lives and worker.doing is None and worker.has_next and worker.next is not None:
            worker.doing, worker.next, worker.has_next, worker.begun = worker.next, None, False, now
            needed = self.work[worker.doing]
            lives = self.generator.exponential(1.0) * self.cluster.between_failures
            self.plan(now + min(lives, needed), self.failed if lives < needed else self.finished, worker)
        if worker.lives and worker.next is None and self.left:
            worker.next = self.left.popleft()
            self.plan(self.drive(now), self.arrived, worker)

    def started(self, now: float, worker: Worker) -> None:
        """A worker can work."""
        worker.lives = True

    def arrived(self, now: float, worker: Worker) -> None:
        """A document waits at a worker."""
        worker.has_next = True

    def finished(self, now: float, worker: Worker) -> None:
        """A document is restored; the driver writes it."""
        assert worker.doing is not None
        self.busy += self.work[worker.doing]
        self.done = self.drive(now)
        worker.doing = None

    def failed(self, now: float, worker: Worker) -> None:
        """A worker is gone, and its document is handed out again or given up; a new worker starts."""
        assert worker.doing is not None
        lost, worker.doing, worker.lives = worker.doing, None, False
        self.failures += 1
        self.wasted += now - worker.begun
        self.tried[lost] += 1
        if self.tried[lost] == self.cluster.attempts:
            self.copied += 1
            self.done = self.drive(now)
        else:
            self.left.appendleft(lost)
            for other in self.workers:  # one of them may have nothing to do
                self.go_on(now, other)
        self.plan(now + self.cluster.start, self.started, worker)
