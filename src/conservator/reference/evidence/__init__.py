"""Evidence of the composition field: exact, factorised, composite and denoising scores."""

from conservator.reference.evidence.composite import CompositeEvidence
from conservator.reference.evidence.denoising import denoising_score, expected_denoising_score
from conservator.reference.evidence.enumerated import EnumeratedEvidence
from conservator.reference.evidence.evidence import Evidence
from conservator.reference.evidence.factorised import FactorisedEvidence

__all__ = [
    "CompositeEvidence",
    "EnumeratedEvidence",
    "Evidence",
    "FactorisedEvidence",
    "denoising_score",
    "expected_denoising_score",
]
