"""Batches: many documents with the experts loaded once, resumed where they were interrupted."""

from conservator.batch.configuration import hash_configuration
from conservator.batch.driver import Batch
from conservator.batch.engine import Done, Engine, Setup, Task
from conservator.batch.inputs import Inputs
from conservator.batch.pool import LocalEngine
from conservator.batch.ray import RayEngine
from conservator.batch.totals import Totals

__all__ = [
    "Batch",
    "Done",
    "Engine",
    "Inputs",
    "LocalEngine",
    "RayEngine",
    "Setup",
    "Task",
    "Totals",
    "hash_configuration",
]
