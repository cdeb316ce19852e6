"""The paper's Algorithm 1, smoothers, exact and enumerable evidence, and oracles for tests.

The product does not import this package. Studies and tests do.
"""

from conservator.reference.decoders import (
    Decoded,
    decode_iteratively,
    decode_one_step,
    decode_posterior,
    decode_uniform,
    decode_with_channel,
    sample_uniform,
)
from conservator.reference.engines import PRESETS, Ascent, Cavities, Maximum, Particles, draw_particles
from conservator.reference.evidence import (
    CompositeEvidence,
    EnumeratedEvidence,
    Evidence,
    FactorisedEvidence,
    denoising_score,
    expected_denoising_score,
)
from conservator.reference.experts import (
    BigramExpert,
    ByteLm,
    ByteState,
    CategoricalExpert,
    EnumeratedExpert,
    MarkovExpert,
    all_sequences,
    enumerate_texts,
    sample_categorical,
    score_bytes,
)
from conservator.reference.local_gain import (
    GridFields,
    HeldOut,
    finest_resolution,
    held_out_gain,
    infer_grid,
    read_folds,
    score_states,
)
from conservator.reference.smoothing import MovingAverage, NoSmoothing, PerColumn, Smoother, TotalVariation
from conservator.reference.solvers import Solution, ascend, infer_field, maximise
from conservator.reference.uniform import FixedTimeExpert, expected_energies, sampled_energies, uniform_denoising_score

__all__ = [
    "PRESETS",
    "Ascent",
    "BigramExpert",
    "ByteLm",
    "ByteState",
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
    "NoSmoothing",
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
    "score_bytes",
    "score_states",
    "uniform_denoising_score",
]
