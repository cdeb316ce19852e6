"""The composition field: its evidence, its gradient, and how it is inferred.

``conservator.field.smoothing`` holds the smoothers; it is imported apart because it compiles.
"""

from conservator.field.denoising import denoising_score, expected_denoising_score
from conservator.field.enumerated import EnumeratedEvidence
from conservator.field.evidence import Evidence
from conservator.field.exponentiated_gradient import Inference, infer_field
from conservator.field.factorised import FactorisedEvidence
from conservator.field.pool import log_pool

__all__ = [
    "EnumeratedEvidence",
    "Evidence",
    "FactorisedEvidence",
    "Inference",
    "denoising_score",
    "expected_denoising_score",
    "infer_field",
    "log_pool",
]
