"""The local engine: worker processes on this machine, each with its own experts and one thread."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from conservator.batch.engine import (
    POLL_SECONDS,
    CrashCounter,
    DocumentResult,
    Results,
    Task,
    WorkerConfig,
    give_up,
    time_limit_reason,
)
from conservator.batch.memory_usage import is_supported, memory_of
from conservator.batch.worker import serve
from conservator.errors import ConservatorError
from conservator.system.processes import Problem, Worker


@dataclass
class PoolWorker:
    """A worker process and its current task.

    Attributes:
        worker: the process.
        is_ready: whether its experts are loaded.
        task: its current task; None if it is idle.
        start_time: when it started with the task, by ``time.monotonic``.
    """

    worker: Worker
    is_ready: bool = False
    task: Task | None = None
    start_time: float = 0.0


@dataclass
class LocalEngine:
    """An ``Engine`` of processes on this machine.

    Each process loads its experts once and processes one task at a time. One task for each process is read ahead.

    Attributes:
        worker_config: the configuration of the workers.
        jobs: maximum number of workers.
        time_limit: time limit for one document, in seconds; None for no limit.
        memory_limit: memory limit for one worker with its experts, in bytes; None for no limit.
    """

    worker_config: WorkerConfig
    jobs: int = 1
    time_limit: float | None = None
    memory_limit: int | None = None
    _workers: list[PoolWorker] = field(default_factory=list, init=False)
    _crashes: CrashCounter = field(default_factory=CrashCounter, init=False)

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        if self.memory_limit is not None and not is_supported():
            raise ConservatorError("--memory-limit is not supported on this system: it does not report memory usage")
        source, queue = iter(tasks), deque[Task]()
        more = self._read_ahead(source, queue)
        try:
            while queue or any(worker.task is not None for worker in self._workers):
                self._start(len(queue) + sum(worker.task is not None for worker in self._workers))
                self._send(queue)
                results = [result for worker in self._wait() for result in self._receive(worker, queue)]
                results += self._check_limits()
                self._send(queue)  # before the results are written, so that workers do not wait for the driver
                yield from results
                if more:
                    more = self._read_ahead(source, queue)
        finally:
            self._stop(self._workers)

    def _read_ahead(self, source: Iterator[Task], queue: deque[Task]) -> bool:
        """Queue one task for each worker; return whether there may be more."""
        while len(queue) < self.jobs:
            task = next(source, None)
            if task is None:
                return False
            queue.append(task)
        return True

    def _start(self, tasks: int) -> None:
        """Start workers, at most one for each task."""
        while len(self._workers) < min(self.jobs, tasks):
            self._workers.append(PoolWorker(Worker.start(serve, self.worker_config)))

    def _send(self, queue: deque[Task]) -> None:
        """Send a task to each idle worker."""
        for worker in self._workers:
            if worker.is_ready and worker.task is None and queue:
                worker.task, worker.start_time = queue.popleft(), time.monotonic()
                with suppress(OSError):  # the worker has just crashed; ``_receive`` handles that
                    worker.worker.connection.send(worker.task)

    def _wait(self) -> list[PoolWorker]:
        """Wait for workers that sent a message or crashed, or until the limits must be checked."""
        has_limits = self.time_limit is not None or self.memory_limit is not None
        ready = wait([worker.worker.connection for worker in self._workers], POLL_SECONDS if has_limits else None)
        return [worker for worker in self._workers if worker.worker.connection in ready]

    def _receive(self, worker: PoolWorker, queue: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """Handle the message of a worker: it is ready, the configuration is invalid, or a result."""
        try:
            message = worker.worker.connection.recv()
        except (EOFError, OSError):
            return self._on_worker_exit(worker, queue)
        if isinstance(message, Problem):
            message.throw()
        if worker.task is None:
            worker.is_ready, self._crashes.startup_failures = True, 0
            return []
        number, worker.task = worker.task.number, None
        return [(number, message)]

    def _on_worker_exit(self, worker: PoolWorker, queue: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """Remove a worker that crashed, and handle its task."""
        self._stop([worker])
        cause = worker.worker.exit_description
        if worker.task is not None:
            return self._crashes.count_crash(worker.task, worker.start_time, cause, queue)
        if not worker.is_ready:
            self._crashes.count_startup_failure(cause)
        return []

    def _check_limits(self) -> list[tuple[int, DocumentResult]]:
        """Stop workers that exceed the time or memory limit, and give up their documents."""
        results = []
        for worker in [worker for worker in self._workers if worker.task is not None]:
            reason = ""
            if self.time_limit is not None and time.monotonic() - worker.start_time > self.time_limit:
                reason = time_limit_reason(self.time_limit)
            elif self.memory_limit is not None and memory_of(worker.worker.process.pid or 0) > self.memory_limit:
                reason = f"used more memory than the limit of {self.memory_limit / 2**20:g} MB"
            if reason and worker.task is not None:
                results.append((worker.task.number, give_up(reason, worker.start_time)))
                self._stop([worker])
        return results

    def _stop(self, workers: list[PoolWorker]) -> None:
        """Kill workers."""
        for worker in list(workers):
            self._workers.remove(worker)
            worker.worker.end()
