"""The composition field: its evidence, its gradient, the engines that infer it, and the smoothers."""

from conservator.field.causal import infer_causal_field
from conservator.field.composite import CompositeEvidence
from conservator.field.composition import Composition
from conservator.field.denoising import denoising_score, expected_denoising_score
from conservator.field.engines import (
    GLOBAL,
    PRESETS,
    Ascent,
    Bayes,
    Cavities,
    Engine,
    Inferred,
    Maximum,
    Outcome,
    Particles,
    Survey,
    draw_particles,
)
from conservator.field.enumerated import EnumeratedEvidence
from conservator.field.evidence import Evidence
from conservator.field.exponentiated_gradient import infer_field
from conservator.field.factorised import FactorisedEvidence
from conservator.field.folds import DEFAULT, Folds, hide
from conservator.field.forward_backward import posterior
from conservator.field.gain import (
    HeldOut,
    LatticeFields,
    finest_parts,
    held_out_gain,
    infer_lattice,
    leave_out,
    read_folds,
    score_states,
)
from conservator.field.lattice import MarkovPrior, constant, laplace, simplex_lattice, sticky, two_level
from conservator.field.lattice_evidence import LatticeEvidence, lattice_evidence
from conservator.field.lattice_posterior import LatticePosterior, default_priors, lattice_posterior, one_weight
from conservator.field.maximum import maximise
from conservator.field.pool import log_pool
from conservator.field.selection import choose_experts
from conservator.field.smoothed_ascent import ascend
from conservator.field.smoothing import (
    GroupTotalVariation,
    MovingAverage,
    NoSmoothing,
    PerColumn,
    Smoother,
    TotalVariation,
)
from conservator.field.solution import Solution
from conservator.field.trust import Trust, fit_trust

__all__ = [
    "DEFAULT",
    "GLOBAL",
    "PRESETS",
    "Ascent",
    "Bayes",
    "Cavities",
    "CompositeEvidence",
    "Composition",
    "Engine",
    "EnumeratedEvidence",
    "Evidence",
    "FactorisedEvidence",
    "Folds",
    "GroupTotalVariation",
    "HeldOut",
    "Inferred",
    "LatticeEvidence",
    "LatticeFields",
    "LatticePosterior",
    "MarkovPrior",
    "Maximum",
    "MovingAverage",
    "NoSmoothing",
    "Outcome",
    "Particles",
    "PerColumn",
    "Smoother",
    "Solution",
    "Survey",
    "TotalVariation",
    "Trust",
    "ascend",
    "choose_experts",
    "constant",
    "default_priors",
    "denoising_score",
    "draw_particles",
    "expected_denoising_score",
    "finest_parts",
    "fit_trust",
    "held_out_gain",
    "hide",
    "infer_causal_field",
    "infer_field",
    "infer_lattice",
    "laplace",
    "lattice_evidence",
    "lattice_posterior",
    "leave_out",
    "log_pool",
    "maximise",
    "one_weight",
    "posterior",
    "read_folds",
    "score_states",
    "simplex_lattice",
    "sticky",
    "two_level",
]
