"""Engines: frozen callables ``(team, observation, generator) -> Inferred``."""

from conservator.field.engines.bayes import GLOBAL, Bayes
from conservator.field.engines.engine import Engine, Inferred, Outcome
from conservator.field.engines.subsampled_bayes import SubsampledBayes

__all__ = [
    "GLOBAL",
    "Bayes",
    "Engine",
    "Inferred",
    "Outcome",
    "SubsampledBayes",
]
