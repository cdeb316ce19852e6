"""The engine of many machines: actors of Ray, each with its own experts."""

import os
import socket
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from conservator.batch.engine import WATCH, Deaths, DocumentResult, Results, Task, WorkerConfig, gave_up
from conservator.errors import ConservatorError
from conservator.system.processes import THREAD_VARIABLES, Problem

ANSWER = 10.0  # seconds in which a cluster must answer
STORE = 2**28  # bytes for documents on their way, where Ray is started here
NEEDED = 'ray is not installed; pip install "conservator[ray]" brings it'


@dataclass
class Actor:
    """A worker of Ray, what it was asked last, and when."""

    handle: Any
    asked: Any
    task: Task | None = None
    began: float = field(default_factory=time.monotonic)


@dataclass
class RayEngine:
    """An ``Engine`` of actors on a cluster of Ray, or on this machine, where one is started for the run.

    Each actor loads the setup once and has one task at a time. Those that die are replaced, wherever there is room.

    Attributes:
        setup: what a worker is made of; the paths in it must be there on every machine.
        jobs: how many actors there are; None for as many as the cluster has processors.
        address: of the cluster, such as ``ray://head:10001`` or ``auto``; None starts one here.
        gpus: the share of a graphics processor that each actor takes.
        time_limit: the seconds that a document may take; None for no limit.
    """

    setup: WorkerConfig
    jobs: int | None = None
    address: str | None = None
    gpus: float = 0.0
    time_limit: float | None = None
    _actors: list[Actor] = field(default_factory=list, init=False)
    _deaths: Deaths = field(default_factory=Deaths, init=False)

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        ray = self._connect()
        jobs = self.jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        source, waiting = iter(tasks), deque[Task]()
        more = True
        try:
            while True:
                while more and len(waiting) < jobs:
                    task = next(source, None)
                    more = task is not None
                    waiting += [task] if task is not None else []
                working = sum(one.task is not None for one in self._actors)
                if not waiting and not working:
                    return
                self._start(ray, min(jobs, len(waiting) + working))
                yield from self._look(ray, waiting)
        finally:
            for one in self._actors:
                ray.kill(one.handle)
            self._actors.clear()
            ray.shutdown()

    def _connect(self) -> Any:
        """Ray, connected to its cluster, or to one that is started here."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise ConservatorError(NEEDED) from error
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address is None:
                cores = self.jobs or os.cpu_count()
                ray.init("local", num_cpus=cores, include_dashboard=False, object_store_memory=STORE, **quiet)
            else:
                check_address(self.address)
                ray.init(self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            where = "here" if self.address is None else f"at {self.address}"
            raise ConservatorError(f"no cluster of Ray {where}: {str(error).splitlines()[0]}") from error
        return ray

    def _start(self, ray: Any, wanted: int) -> None:
        """Start actors; each says first whether it could be made."""
        variables = dict.fromkeys(THREAD_VARIABLES, "1") | {"OMP_WAIT_POLICY": "PASSIVE"}
        while len(self._actors) < wanted:
            made = ray.remote(num_cpus=1, num_gpus=self.gpus, runtime_env={"env_vars": variables})(Worker)
            handle = made.remote(self.setup)
            self._actors.append(Actor(handle, handle.problem.remote()))

    def _look(self, ray: Any, waiting: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """Wait until some actor has something to say, or too much time has passed; give idle actors a task."""
        asked = {one.asked: one for one in self._actors}
        ended, _ = ray.wait(list(asked), timeout=None if self.time_limit is None else WATCH)
        results = []
        for one in [asked[reference] for reference in ended]:
            results += self._receive(ray, one, waiting)
        for one in [one for one in self._actors if one.task is not None]:
            if self.time_limit is not None and time.monotonic() - one.began > self.time_limit and one.task is not None:
                results.append((one.task.number, gave_up(f"it took longer than {self.time_limit:g} s", one.began)))
                self._actors.remove(one)
                ray.kill(one.handle)
        return results

    def _receive(self, ray: Any, one: Actor, waiting: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """What an actor says: that it is ready, what is wrong with the setup, or a result."""
        try:
            said = ray.get(one.asked)
        except ray.exceptions.RayError as error:
            return self._bury(one, waiting, str(error).strip().splitlines()[-1].strip())
        results: list[tuple[int, DocumentResult]] = []
        if one.task is not None:
            results.append((one.task.number, said))
        elif said is not None:
            said.throw()
        self._deaths.early = 0
        if waiting:
            one.task, one.began = waiting.popleft(), time.monotonic()
            one.asked = one.handle.restore.remote(one.task)
        else:
            self._actors.remove(one)
            ray.kill(one.handle)
        return results

    def _bury(self, one: Actor, waiting: deque[Task], how: str) -> list[tuple[int, DocumentResult]]:
        """An actor has died, with a document or without."""
        self._actors.remove(one)
        if one.task is not None:
            return self._deaths.count(one.task, one.began, how, waiting)
        self._deaths.count_early(how)
        return []


def check_address(address: str) -> None:
    """Raise an OSError if nobody answers at an address; Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), ANSWER).close()


class Worker:
    """What an actor is: a worker made of a setup, or what is wrong with the setup."""

    def __init__(self, setup: WorkerConfig) -> None:
        """Load what is needed."""
        from conservator.batch.work import load_worker

        self.wrong: Problem | None = None
        try:
            self.work = load_worker(setup)
        except ConservatorError as error:
            self.wrong = Problem.of(error)

    def problem(self) -> Problem | None:
        """What is wrong with the setup; None if nothing is."""
        return self.wrong

    def restore(self, task: Task) -> DocumentResult:
        """Restore a document."""
        return self.work(task)
