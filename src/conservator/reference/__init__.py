"""Reference implementation of the paper's algorithms, and exact oracles for tests.

The product does not import this package; studies and tests do. ``docs/paper_to_code.md`` maps every equation.

- ``engines``: Algorithm 1 with particles, equation (est_gradient) (``Particles``); point estimates of the field from
  composite evidence (``Ascent``, ``Maximum``); uniform sources (``Cavities``).
- ``evidence``: equations (evidence) and (gradient) for factorised experts, equations (seq_evidence) and (seq_gradient)
  for enumerable experts, composite evidence, and the denoising score of equation (dscore).
- ``solvers``: exponentiated gradient, equation (mw), alone and with smoothing (lines 1 to 7 of Algorithm 1); the
  certified maximum of evidence minus total variation.
- ``smoothing``: the proximal map of equations (prox) and (tv), and the paper's variants.
- ``decoders``: the one-step decoder of equation (decode), the iterative decoder, the channel posterior, and the decoder
  for uniform sources.
- ``uniform``: energies and scores of experts with a uniform source (appendix "The uniform-source mismatch").
- ``experts``: experts with exact conditionals, for simulations and as oracles.
- ``local_gain``: the gain of local over global weights, estimated without decoding (section "Naturally mixed
  documents").
"""

from conservator.reference.decoders.decoded import Decoded
from conservator.reference.decoders.iterative import decode_iteratively, decode_one_step
from conservator.reference.decoders.posterior import decode_posterior, decode_with_channel
from conservator.reference.decoders.uniform import decode_uniform, sample_uniform
from conservator.reference.engines.cavities import Cavities
from conservator.reference.engines.particles import PRESETS, Particles, draw_particles
from conservator.reference.engines.solved import Ascent, Maximum
from conservator.reference.evidence.composite import CompositeEvidence
from conservator.reference.evidence.denoising import denoising_score, expected_denoising_score
from conservator.reference.evidence.enumerated import EnumeratedEvidence
from conservator.reference.evidence.evidence import Evidence
from conservator.reference.evidence.factorised import FactorisedEvidence
from conservator.reference.experts.bigram import BigramExpert
from conservator.reference.experts.categorical import CategoricalExpert, sample_categorical
from conservator.reference.experts.enumerated import EnumeratedExpert
from conservator.reference.experts.markov import MarkovExpert
from conservator.reference.experts.sequences import all_sequences
from conservator.reference.experts.texts import enumerate_texts
from conservator.reference.local_gain import (
    GridFields,
    HeldOut,
    finest_resolution,
    held_out_gain,
    infer_grid,
    read_folds,
    score_states,
)
from conservator.reference.smoothing.smoother import MovingAverage, PerColumn, Smoother, TotalVariation
from conservator.reference.solvers.exponentiated_gradient import infer_field
from conservator.reference.solvers.maximum import maximise
from conservator.reference.solvers.smoothed_ascent import ascend
from conservator.reference.solvers.solution import Solution
from conservator.reference.uniform.energies import expected_energies, sampled_energies, uniform_denoising_score
from conservator.reference.uniform.fixed_time import FixedTimeExpert

__all__ = [
    "PRESETS",
    "Ascent",
    "BigramExpert",
    "CategoricalExpert",
    "Cavities",
    "CompositeEvidence",
    "Decoded",
    "EnumeratedEvidence",
    "EnumeratedExpert",
    "Evidence",
    "FactorisedEvidence",
    "FixedTimeExpert",
    "GridFields",
    "HeldOut",
    "MarkovExpert",
    "Maximum",
    "MovingAverage",
    "Particles",
    "PerColumn",
    "Smoother",
    "Solution",
    "TotalVariation",
    "all_sequences",
    "ascend",
    "decode_iteratively",
    "decode_one_step",
    "decode_posterior",
    "decode_uniform",
    "decode_with_channel",
    "denoising_score",
    "draw_particles",
    "enumerate_texts",
    "expected_denoising_score",
    "expected_energies",
    "finest_resolution",
    "held_out_gain",
    "infer_field",
    "infer_grid",
    "maximise",
    "read_folds",
    "sample_categorical",
    "sample_uniform",
    "sampled_energies",
    "score_states",
    "uniform_denoising_score",
]
