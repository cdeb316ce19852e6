"""Execution of tasks by a pool of worker processes or Ray actors."""

from conservator.execution.pool import Call, ClosedError, CrashError, StartupError, TimeLimitError, WorkerPool
from conservator.execution.ray import RayPool
from conservator.execution.worker import OnProgress, TaskError, find_factory, memory_of

__all__ = [
    "Call",
    "ClosedError",
    "CrashError",
    "OnProgress",
    "RayPool",
    "StartupError",
    "TaskError",
    "TimeLimitError",
    "WorkerPool",
    "find_factory",
    "memory_of",
]
