"""Experts with a uniform source: cavities, local energies, and the wrappers with which a team takes them."""

from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.masked import LATEST, LeaveOneOut, MaskedFromUniform, filled
from conservator.experts.uniform.path import check_uniform, log_channel, noised, source_tokens

__all__ = [
    "LATEST",
    "LeaveOneOut",
    "MaskedFromUniform",
    "cavity",
    "check_uniform",
    "filled",
    "log_channel",
    "noised",
    "source_tokens",
]
