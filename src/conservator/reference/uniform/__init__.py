"""Energies and fixed-time predictions of experts with a uniform source."""

from conservator.reference.uniform.energies import expected_energies, sampled_energies, uniform_denoising_score
from conservator.reference.uniform.fixed_time import FixedTimeExpert

__all__ = ["FixedTimeExpert", "expected_energies", "sampled_energies", "uniform_denoising_score"]
