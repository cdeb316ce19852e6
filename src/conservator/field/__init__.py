"""The composition field: evidence on a weight grid, Markov priors, and the engines that infer the posterior."""

from conservator.field.causal import infer_causal_field
from conservator.field.composition import Composition
from conservator.field.engines import GLOBAL, Bayes, Engine, Inferred, Outcome, SubsampledBayes
from conservator.field.folds import DEFAULT, Folds, hide
from conservator.field.forward_backward import posterior
from conservator.field.gate import Gate, fit_gate
from conservator.field.grid_evidence import GridEvidence, grid_evidence
from conservator.field.grid_posterior import GridPosterior, default_priors, global_prior, grid_posterior
from conservator.field.leave_one_out import leave_one_out_posterior
from conservator.field.pool import log_pool
from conservator.field.selection import choose_experts
from conservator.field.weight_grid import MarkovPrior, constant, laplace, simplex_grid, sticky, two_level

__all__ = [
    "DEFAULT",
    "GLOBAL",
    "Bayes",
    "Composition",
    "Engine",
    "Folds",
    "Gate",
    "GridEvidence",
    "GridPosterior",
    "Inferred",
    "MarkovPrior",
    "Outcome",
    "SubsampledBayes",
    "choose_experts",
    "constant",
    "default_priors",
    "fit_gate",
    "global_prior",
    "grid_evidence",
    "grid_posterior",
    "hide",
    "infer_causal_field",
    "laplace",
    "leave_one_out_posterior",
    "log_pool",
    "posterior",
    "simplex_grid",
    "sticky",
    "two_level",
]
