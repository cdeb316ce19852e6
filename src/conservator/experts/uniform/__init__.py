"""Experts with a uniform source: cavities, local energies, and the wrappers with which a team takes them."""

from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.energies import denoising_score, expected_energies, sampled_energies
from conservator.experts.uniform.hiding import LATEST, AtTime, Hiding, LeaveOneOut, filled
from conservator.experts.uniform.path import check_uniform, log_channel, noised, source_tokens

__all__ = [
    "LATEST",
    "AtTime",
    "Hiding",
    "LeaveOneOut",
    "cavity",
    "check_uniform",
    "denoising_score",
    "expected_energies",
    "filled",
    "log_channel",
    "noised",
    "sampled_energies",
    "source_tokens",
]
