"""Correction of OCR errors, with character n-gram models as the prior."""

from conservator.pipelines.correction.corrector import Correction, Corrector
from conservator.pipelines.correction.pipeline import as_restoration, correct

__all__ = ["Correction", "Corrector", "as_restoration", "correct"]
