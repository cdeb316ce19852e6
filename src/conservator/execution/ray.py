"""A pool of actors on a Ray cluster."""

import os
import socket
from dataclasses import dataclass
from typing import Any

from conservator.errors import ConservatorError
from conservator.execution.pool import WorkerPool
from conservator.execution.worker import TASK, Message, TaskRunner, Worker, thread_environment

CONNECT_TIMEOUT = 10.0  # seconds: for a connection to the cluster [untuned]
OBJECT_STORE_BYTES = 2**28  # bytes: for tasks and results in transfer, if Ray is started on this machine [untuned]
NOT_INSTALLED = 'ray is not installed; install it with pip install "conservator[ray]"'


@dataclass
class RayPool(WorkerPool):
    """A pool of actors on a Ray cluster, or on a local Ray instance that ends with the pool.

    Ray limits the memory of actors itself, so ``memory_limit`` has no effect. Actors report no progress, and an actor
    whose task is stopped is killed after ``stop_seconds``.

    Attributes:
        workers: maximum number of actors; 0 for one for each processor of the cluster.
        config: the configuration of the actors; its paths must exist on every machine.
        address: address of the cluster, such as ``ray://head:10001`` or ``auto``; None starts a local instance.
        gpus: number of GPUs for each actor; may be a fraction.
    """

    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        """Import Ray and connect to the cluster, or start a local instance."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise ConservatorError(NOT_INSTALLED) from error
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address is None:
                cores = self.workers or os.cpu_count()
                ray.init(
                    "local", num_cpus=cores, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet
                )
            else:
                check_address(self.address)
                ray.init(self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            action = "start Ray" if self.address is None else f"connect to Ray at {self.address}"
            raise ConservatorError(f"cannot {action}: {str(error).splitlines()[0]}") from error
        self.ray: Any = ray
        self.workers = self.workers or max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def close(self) -> None:
        """End all actors, and disconnect."""
        super().close()
        self.ray.shutdown()

    def start_worker(self) -> Worker:
        """Start an actor."""
        environment = {"env_vars": thread_environment(self.threads)}
        actor_class = self.ray.remote(num_cpus=1, num_gpus=self.gpus, runtime_env=environment)(TaskRunner)
        return RayWorker(self.ray, actor_class.remote(self.factory, self.config))


class RayWorker(Worker):
    """An actor and its current call."""

    def __init__(self, ray: Any, actor: Any) -> None:
        """Make the handler of the actor."""
        self.ray, self.actor, self.call, self.exit_description = ray, actor, actor.start.remote(), "killed"

    def send(self, kind: str, value: Any = None) -> None:
        """Send a task; other messages cannot be sent."""
        if kind == TASK:
            self.call = self.actor.run.remote(value)

    def receive(self, timeout: float) -> Message | None:
        """Return the result of the current call, or None after ``timeout`` seconds."""
        try:
            return self.ray.get(self.call) if self.ray.wait([self.call], timeout=timeout)[0] else None
        except self.ray.exceptions.RayError as error:
            self.exit_description = str(error).strip().splitlines()[-1].strip()
            raise EOFError from None

    def memory(self) -> int:
        """Return 0: Ray does not report the memory."""
        return 0

    def kill(self) -> None:
        """Kill the actor."""
        self.ray.kill(self.actor)

    def end(self) -> str:
        """Kill the actor, and describe its exit."""
        self.kill()
        return self.exit_description


def check_address(address: str) -> None:
    """Raise an OSError if nothing listens at an address; Ray itself would retry for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
