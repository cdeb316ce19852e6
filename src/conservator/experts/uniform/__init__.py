"""Experts with a uniform source: cavity distributions, and wrappers that make them members of a team."""

from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.masked import MAX_KAPPA, LeaveOneOut, MaskedFromUniform, filled
from conservator.experts.uniform.path import check_uniform, log_channel, noised, source_tokens

__all__ = [
    "MAX_KAPPA",
    "LeaveOneOut",
    "MaskedFromUniform",
    "cavity",
    "check_uniform",
    "filled",
    "log_channel",
    "noised",
    "source_tokens",
]
