"""Engines of the paper: Algorithm 1, point estimates, and leave-one-out evidence for uniform sources."""

from conservator.reference.engines.cavities import Cavities
from conservator.reference.engines.particles import PRESETS, Particles, draw_particles
from conservator.reference.engines.solved import Ascent, Maximum

__all__ = ["PRESETS", "Ascent", "Cavities", "Maximum", "Particles", "draw_particles"]
