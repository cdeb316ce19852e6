"""Solvers for the point estimate of the field."""

from conservator.reference.solvers.exponentiated_gradient import infer_field
from conservator.reference.solvers.maximum import maximise
from conservator.reference.solvers.smoothed_ascent import ascend
from conservator.reference.solvers.solution import Solution

__all__ = ["Solution", "ascend", "infer_field", "maximise"]
