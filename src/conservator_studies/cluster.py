"""Discrete-event simulation of a cluster: the cost of failures, stragglers and a single driver.

The driver assigns documents in order and writes the results, one operation at a time. A worker restores one document at
a time and holds the next document in a queue of length one. Workers fail at random during work; the document is
assigned again, and a new worker replaces the failed worker after a start-up time.
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
    """Configuration of a simulated cluster.

    Attributes:
        workers: number of workers.
        start: start-up time of a worker in seconds.
        driver: time of the driver per document in seconds.
        between_failures: mean seconds of work between failures of a worker; infinite if workers never fail.
        attempts: number of failures after which a document is copied without restoration.
    """

    workers: int
    start: float = 0.0
    driver: float = 0.0
    between_failures: float = math.inf
    attempts: int = 3


@dataclass(frozen=True)
class SimulationResult:
    """Result of a simulated run.

    Attributes:
        seconds: time from the start until the last document was written.
        busy: seconds of work on finished documents, over all workers.
        wasted: seconds of work lost in failures.
        failures: number of failures.
        copied: number of documents that were copied without restoration.
    """

    seconds: float
    busy: float
    wasted: float
    failures: int
    copied: int

    def used(self, workers: int) -> float:
        """Utilisation: fraction of the time of all workers spent on finished documents."""
        return self.busy / (workers * self.seconds) if self.seconds else 0.0


def simulate(cluster: Cluster, work: Sequence[float], generator: np.random.Generator) -> SimulationResult:
    """Simulate a cluster on documents that are assigned in order; ``work`` has the seconds of each document."""
    return Simulation(cluster, work, generator).run()


@dataclass
class Worker:
    """State of a worker.

    Attributes:
        running: whether the worker has started and not failed.
        current: number of the current document.
        started_at: start time of the current document.
        queued: number of the next document.
        queued_arrived: whether the next document has arrived at the worker.
    """

    running: bool = False
    current: int | None = None
    started_at: float = 0.0
    queued: int | None = None
    queued_arrived: bool = False


class Simulation:
    """State of a simulated run."""

    def __init__(self, cluster: Cluster, work: Sequence[float], generator: np.random.Generator) -> None:
        """Start with all workers stopped; ``work`` has the seconds of each document, ``generator`` draws failures."""
        self.cluster, self.work, self.generator = cluster, work, generator
        self.workers = [Worker() for _ in range(cluster.workers)]
        self.pending, self.attempts = deque(range(len(work))), [0] * len(work)
        self.events: list[tuple[float, int, Callable[[float, Worker], None], Worker]] = []
        self.order = count()
        self.driver_free_at = self.finished_at = self.busy = self.wasted = 0.0
        self.failures = self.copied = 0

    def run(self) -> SimulationResult:
        """Simulate until every document is written."""
        for worker in self.workers:
            self.schedule(self.cluster.start, self.started, worker)
        while self.events:
            now, _, event, worker = heapq.heappop(self.events)
            event(now, worker)
            self.advance(now, worker)
        return SimulationResult(self.finished_at, self.busy, self.wasted, self.failures, self.copied)

    def schedule(self, time: float, event: "Callable[[float, Worker], None]", worker: Worker) -> None:
        """Add an event to the queue."""
        heapq.heappush(self.events, (time, next(self.order), event, worker))

    def use_driver(self, now: float) -> float:
        """Occupy the driver for one operation; return its end time."""
        self.driver_free_at = max(self.driver_free_at, now) + self.cluster.driver / 2
        return self.driver_free_at

    def advance(self, now: float, worker: Worker) -> None:
        """Start the queued document of a worker, and assign the next document to its queue."""
        if worker.running and worker.current is None and worker.queued_arrived and worker.queued is not None:
            worker.current, worker.queued, worker.queued_arrived, worker.started_at = worker.queued, None, False, now
            needed = self.work[worker.current]
            until_failure = self.generator.exponential(1.0) * self.cluster.between_failures
            event = self.failed if until_failure < needed else self.finished
            self.schedule(now + min(until_failure, needed), event, worker)
        if worker.running and worker.queued is None and self.pending:
            worker.queued = self.pending.popleft()
            self.schedule(self.use_driver(now), self.arrived, worker)

    def started(self, now: float, worker: Worker) -> None:
        """Handle the end of the start-up of a worker."""
        worker.running = True

    def arrived(self, now: float, worker: Worker) -> None:
        """Handle the arrival of a document at a worker."""
        worker.queued_arrived = True

    def finished(self, now: float, worker: Worker) -> None:
        """Handle a restored document: the driver writes it."""
        assert worker.current is not None
        self.busy += self.work[worker.current]
        self.finished_at = self.use_driver(now)
        worker.current = None

    def failed(self, now: float, worker: Worker) -> None:
        """Handle a failure: the document is assigned again or copied, and a new worker starts."""
        assert worker.current is not None
        document, worker.current, worker.running = worker.current, None, False
        self.failures += 1
        self.wasted += now - worker.started_at
        self.attempts[document] += 1
        if self.attempts[document] == self.cluster.attempts:
            self.copied += 1
            self.finished_at = self.use_driver(now)
        else:
            self.pending.appendleft(document)
            for other in self.workers:  # an idle worker can take the document
                self.advance(now, other)
        self.schedule(now + self.cluster.start, self.started, worker)
