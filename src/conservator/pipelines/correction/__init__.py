"""Correction of OCR errors, with character n-gram models as the prior."""

from conservator.pipelines.correction.corrector import Correction, Corrector
from conservator.pipelines.correction.protection import find_tokens
from conservator.pipelines.correction.result import as_restoration

__all__ = ["Correction", "Corrector", "as_restoration", "find_tokens"]
