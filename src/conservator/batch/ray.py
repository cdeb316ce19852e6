"""The Ray engine: actors on a cluster, each with its own experts."""

import os
import socket
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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
from conservator.errors import ConservatorError
from conservator.system.processes import THREAD_VARIABLES, Problem

CONNECT_TIMEOUT = 10.0  # seconds: for a connection to the cluster [untuned]
OBJECT_STORE_BYTES = 2**28  # bytes: for documents in transfer, if Ray is started on this machine [untuned]
NOT_INSTALLED = 'ray is not installed; install it with pip install "conservator[ray]"'


@dataclass
class Actor:
    """A Ray actor and its current call.

    Attributes:
        handle: the handle of the actor.
        call: the reference to the result of its current call.
        task: the task of that call; None while the actor starts.
        start_time: when the call was made, by ``time.monotonic``.
    """

    handle: Any
    call: Any
    task: Task | None = None
    start_time: float = field(default_factory=time.monotonic)


@dataclass
class RayEngine:
    """An ``Engine`` of actors on a Ray cluster, or on a local Ray instance that is started for the run.

    Each actor loads its experts once and processes one task at a time. Actors that crash are replaced.

    Attributes:
        worker_config: the configuration of the workers; its paths must exist on every machine.
        jobs: number of actors; None for one for each processor of the cluster.
        address: address of the cluster, such as ``ray://head:10001`` or ``auto``; None starts a local instance.
        gpus: number of GPUs for each actor; may be a fraction.
        time_limit: time limit for one document, in seconds; None for no limit.
    """

    worker_config: WorkerConfig
    jobs: int | None = None
    address: str | None = None
    gpus: float = 0.0
    time_limit: float | None = None
    _actors: list[Actor] = field(default_factory=list, init=False)
    _crashes: CrashCounter = field(default_factory=CrashCounter, init=False)

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        ray = self._connect()
        jobs = self.jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        source, queue = iter(tasks), deque[Task]()
        more = True
        try:
            while True:
                while more and len(queue) < jobs:
                    task = next(source, None)
                    more = task is not None
                    queue += [task] if task is not None else []
                busy = sum(actor.task is not None for actor in self._actors)
                if not queue and not busy:
                    return
                self._start(ray, min(jobs, len(queue) + busy))
                yield from self._wait(ray, queue)
        finally:
            for actor in self._actors:
                ray.kill(actor.handle)
            self._actors.clear()
            ray.shutdown()

    def _connect(self) -> Any:
        """Import Ray and connect to the cluster, or start a local instance."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise ConservatorError(NOT_INSTALLED) from error
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address is None:
                cores = self.jobs or os.cpu_count()
                ray.init(
                    "local", num_cpus=cores, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet
                )
            else:
                check_address(self.address)
                ray.init(self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            action = "start Ray" if self.address is None else f"connect to Ray at {self.address}"
            raise ConservatorError(f"cannot {action}: {str(error).splitlines()[0]}") from error
        return ray

    def _start(self, ray: Any, actors: int) -> None:
        """Start actors; their first call returns whether the configuration is valid."""
        variables = dict.fromkeys(THREAD_VARIABLES, "1") | {"OMP_WAIT_POLICY": "PASSIVE"}
        while len(self._actors) < actors:
            actor_class = ray.remote(num_cpus=1, num_gpus=self.gpus, runtime_env={"env_vars": variables})(RayWorker)
            handle = actor_class.remote(self.worker_config)
            self._actors.append(Actor(handle, handle.problem.remote()))

    def _wait(self, ray: Any, queue: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """Wait for finished calls, or until the time limit must be checked; send tasks to idle actors."""
        actor_by_call = {actor.call: actor for actor in self._actors}
        finished, _ = ray.wait(list(actor_by_call), timeout=None if self.time_limit is None else POLL_SECONDS)
        results = []
        for actor in [actor_by_call[call] for call in finished]:
            results += self._receive(ray, actor, queue)
        for actor in [actor for actor in self._actors if actor.task is not None]:
            if (
                self.time_limit is not None
                and time.monotonic() - actor.start_time > self.time_limit
                and actor.task is not None
            ):
                result = give_up(time_limit_reason(self.time_limit), actor.start_time)
                results.append((actor.task.number, result))
                self._actors.remove(actor)
                ray.kill(actor.handle)
        return results

    def _receive(self, ray: Any, actor: Actor, queue: deque[Task]) -> list[tuple[int, DocumentResult]]:
        """Handle a finished call: the actor is ready, the configuration is invalid, or a result."""
        try:
            message = ray.get(actor.call)
        except ray.exceptions.RayError as error:
            return self._on_worker_exit(actor, queue, str(error).strip().splitlines()[-1].strip())
        results: list[tuple[int, DocumentResult]] = []
        if actor.task is not None:
            results.append((actor.task.number, message))
        elif message is not None:
            message.throw()
        self._crashes.startup_failures = 0
        if queue:
            actor.task, actor.start_time = queue.popleft(), time.monotonic()
            actor.call = actor.handle.restore.remote(actor.task)
        else:
            self._actors.remove(actor)
            ray.kill(actor.handle)
        return results

    def _on_worker_exit(self, actor: Actor, queue: deque[Task], cause: str) -> list[tuple[int, DocumentResult]]:
        """Remove an actor that crashed, and handle its task."""
        self._actors.remove(actor)
        if actor.task is not None:
            return self._crashes.count_crash(actor.task, actor.start_time, cause, queue)
        self._crashes.count_startup_failure(cause)
        return []


def check_address(address: str) -> None:
    """Raise an OSError if nothing listens at an address; Ray itself would retry for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()


class RayWorker:
    """The class of the actors: a worker, or the problem of its configuration."""

    def __init__(self, worker_config: WorkerConfig) -> None:
        """Load the experts."""
        from conservator.batch.work import load_worker

        self.config_problem: Problem | None = None
        try:
            self.worker = load_worker(worker_config)
        except ConservatorError as error:
            self.config_problem = Problem.of(error)

    def problem(self) -> Problem | None:
        """Return the problem of the configuration, or None."""
        return self.config_problem

    def restore(self, task: Task) -> DocumentResult:
        """Restore a document."""
        return self.worker(task)
