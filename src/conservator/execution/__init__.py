"""Execution of tasks by a pool of worker processes or Ray actors."""

from conservator.execution.pool import Call, ClosedError, CrashError, TimeLimitError, WorkerPool
from conservator.execution.ray import RayPool
from conservator.execution.worker import OnProgress, TaskError, find_factory, memory_of

__all__ = [
    "Call",
    "ClosedError",
    "CrashError",
    "OnProgress",
    "RayPool",
    "TaskError",
    "TimeLimitError",
    "WorkerPool",
    "find_factory",
    "memory_of",
]
