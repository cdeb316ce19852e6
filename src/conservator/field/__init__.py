"""The composition field: its evidence, its gradient, the engines that infer it, and the smoothers."""

from conservator.field.causal import infer_causal_field
from conservator.field.composition import Composition
from conservator.field.engines import GLOBAL, Bayes, Engine, Inferred, Outcome, Survey
from conservator.field.folds import DEFAULT, Folds, hide
from conservator.field.forward_backward import posterior
from conservator.field.grid_evidence import LatticeEvidence, lattice_evidence
from conservator.field.grid_posterior import LatticePosterior, default_priors, lattice_posterior, one_weight
from conservator.field.leave_one_out import leave_out
from conservator.field.memory_gate import Trust, fit_trust
from conservator.field.pool import log_pool
from conservator.field.selection import choose_experts
from conservator.field.weight_grid import MarkovPrior, constant, laplace, simplex_lattice, sticky, two_level

__all__ = [
    "DEFAULT",
    "GLOBAL",
    "Bayes",
    "Composition",
    "Engine",
    "Folds",
    "Inferred",
    "LatticeEvidence",
    "LatticePosterior",
    "MarkovPrior",
    "Outcome",
    "Survey",
    "Trust",
    "choose_experts",
    "constant",
    "default_priors",
    "fit_trust",
    "hide",
    "infer_causal_field",
    "laplace",
    "lattice_evidence",
    "lattice_posterior",
    "leave_out",
    "log_pool",
    "one_weight",
    "posterior",
    "simplex_lattice",
    "sticky",
    "two_level",
]
