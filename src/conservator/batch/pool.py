"""The local engine: processes on this machine, each with its own experts, which do not fight for threads."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from conservator.batch.engine import WATCH, Deaths, DocumentResult, Results, Task, WorkerConfig, gave_up
from conservator.batch.memory_usage import is_known, memory_of
from conservator.batch.worker import serve
from conservator.errors import ConservatorError
from conservator.system.processes import Problem, Worker


@dataclass
class Process:
    """A worker process, and what it is at."""

    worker: Worker
    is_ready: bool = False
    task: Task | None = None
    began: float = 0.0


@dataclass
class LocalEngine:
    """An ``Engine`` of processes on this machine.

    Each loads the setup once and has one task at a time; the next one is read ahead and sent as soon as it is done.

    Attributes:
        setup: what a worker is made of.
        jobs: how many workers there are at most.
        time_limit: the seconds that a document may take; None for no limit.
        memory_limit: the bytes that a worker may have in use, experts included; None for no limit.
    """

    setup: WorkerConfig
    jobs: int = 1
    time_limit: float | None = None
    memory_limit: int | None = None
    _processes: list[Process] = field(default_factory=list, init=False)
    _deaths: Deaths = field(default_factory=Deaths, init=False)

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        if self.memory_limit is not None and not is_known():
            raise ConservatorError("--memory-limit: this system does not tell how much memory a process takes")
        source, waiting = iter(tasks), deque[Task]()
        more = self._read_ahead(source, waiting)
        try:
            while waiting or any(one.task is not None for one in self._processes):
                self._start(len(waiting) + sum(one.task is not None for one in self._processes))
                self._send(waiting)
                results = [result for one in self._changed() for result in self._receive(one, waiting)]
                results += self._check_limits()
                self._send(waiting)  # before the results are written, so that nobody waits for that
                yield from results
                if more:
                    more = self._read_ahead(source, waiting)
        finally:
            self._end(self._processes)

    def _read_ahead(self, source: Iterator[Task], waiting: deque[Task]) -> bool:
        """Have a task ready for each worker; return whether there may be more."""
        while len(waiting) < self.jobs:
            task = next(source, None)
            if task is None:
                return False
            waiting.append(task)
        return True

    def _start(self, wanted: int) -> None:
        """Start workers, as many as there are tasks."""
        while len(self._processes) < min(self.jobs, wanted):
            self._processes.append(Process(Worker.start(serve, self.setup)))

    def _send(self, waiting: deque[Task]) -> None:
        """Give each idle worker a task."""
        for one in self._processes:
            if one.is_ready and one.task is None and waiting:
                one.task, one.began = waiting.popleft(), time.monotonic()
                with suppress(OSError):  # a worker that has just died is found out by ``_changed``
                    one.worker.connection.send(one.task)

    def _changed(self) -> list[Process]:
        """The workers that have said something, or have died."""
        watched = self.time_limit is not None or self.memory_limit is not None
        found = wait([one.worker.connection for one in self._processes], WATCH if watched else None)
        return [one for one in self._processes if one.worker.connection in found]

    def _receive(self, one: Process, waiting: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """What a worker says: that it is ready, what is wrong with the setup, or a result."""
        try:
            said = one.worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(one, waiting)
        if isinstance(said, Problem):
            said.throw()
        if one.task is None:
            one.is_ready, self._deaths.early = True, 0
            return []
        number, one.task = one.task.number, None
        return [(number, said)]

    def _bury(self, one: Process, waiting: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """A worker has died, with a document or without."""
        self._end([one])
        how = one.worker.exit_description
        if one.task is not None:
            return self._deaths.count(one.task, one.began, how, waiting)
        if not one.is_ready:
            self._deaths.count_early(how)
        return []

    def _check_limits(self) -> list[tuple[int, DocumentResult]]:
        """End workers that take too long or too much memory; their documents are given up."""
        results = []
        for one in [one for one in self._processes if one.task is not None]:
            reason = ""
            if self.time_limit is not None and time.monotonic() - one.began > self.time_limit:
                reason = f"it took longer than {self.time_limit:g} s"
            elif self.memory_limit is not None and memory_of(one.worker.process.pid or 0) > self.memory_limit:
                reason = f"it took more than {self.memory_limit / 2**20:g} MB of memory"
            if reason and one.task is not None:
                results.append((one.task.number, gave_up(reason, one.began)))
                self._end([one])
        return results

    def _end(self, processes: list[Process]) -> None:
        """End workers at once."""
        for one in list(processes):
            self._processes.remove(one)
            one.worker.end()
