"""The engines of a batch: worker pools on this machine and on a Ray cluster."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass

from conservator.batch.engine import COPIED, DocumentResult, Results, Task, WorkerConfig
from conservator.execution import CrashError, RayPool, TaskError, WorkerPool


@dataclass
class LocalEngine:
    """An ``Engine`` of processes on this machine, each with its own experts and one thread.

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

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        config, time_limit, memory_limit = self.worker_config, self.time_limit, self.memory_limit
        return run_tasks(lambda: WorkerPool(config.factory, config, self.jobs, 1, time_limit, memory_limit), tasks)


@dataclass
class RayEngine:
    """An ``Engine`` of actors on a Ray cluster, or on a local Ray instance that is started for the run.

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

    def run(self, tasks: Iterable[Task]) -> Results:
        """Restore documents; see ``Engine``."""
        config, jobs, limit = self.worker_config, self.jobs or 0, self.time_limit
        return run_tasks(
            lambda: RayPool(config.factory, config, jobs, 1, limit, address=self.address, gpus=self.gpus),
            tasks,
        )


def run_tasks(make_pool: Callable[[], WorkerPool], tasks: Iterable[Task]) -> Results:
    """Run tasks in a pool; a document that was not finished is copied."""
    with closing(make_pool()) as pool:
        for call in pool.run(tasks):
            try:
                result = call.result()
            except TaskError as error:
                is_crash, seconds = isinstance(error, CrashError), time.monotonic() - call.start_time
                reason = f"{call.crashes} workers crashed on this document: {error}" if is_crash else str(error)
                result = DocumentResult(COPIED, reason=reason, gave_up=True, seconds=seconds)
            yield call.task.number, result
