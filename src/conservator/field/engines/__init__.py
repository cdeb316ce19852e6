"""Engines: frozen callables ``(team, observation, generator) -> Inferred``."""

from conservator.field.engines.bayes import GLOBAL, Bayes
from conservator.field.engines.cavities import Cavities
from conservator.field.engines.engine import Engine, Inferred, Outcome
from conservator.field.engines.particles import PRESETS, Particles, draw_particles
from conservator.field.engines.solved import Ascent, Maximum
from conservator.field.engines.survey import Survey

__all__ = [
    "GLOBAL",
    "PRESETS",
    "Ascent",
    "Bayes",
    "Cavities",
    "Engine",
    "Inferred",
    "Maximum",
    "Outcome",
    "Particles",
    "Survey",
    "draw_particles",
]
