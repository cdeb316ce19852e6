"""Energies and fixed-time predictions of experts with a uniform source."""

from conservator.reference.uniform.energies import expected_energies, sampled_energies, uniform_denoising_score
from conservator.reference.uniform.fixed_time import AtTime

__all__ = ["AtTime", "expected_energies", "sampled_energies", "uniform_denoising_score"]
