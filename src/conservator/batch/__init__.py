"""Batches: restore many documents with experts that are loaded once; interrupted runs can be resumed."""

from conservator.batch.configuration import hash_configuration
from conservator.batch.driver import Batch
from conservator.batch.engine import DocumentResult, Engine, Task, WorkerConfig
from conservator.batch.inputs import Inputs
from conservator.batch.pool import LocalEngine, RayEngine
from conservator.batch.totals import Totals

__all__ = [
    "Batch",
    "DocumentResult",
    "Engine",
    "Inputs",
    "LocalEngine",
    "RayEngine",
    "Task",
    "Totals",
    "WorkerConfig",
    "hash_configuration",
]
