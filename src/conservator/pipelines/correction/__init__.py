"""Text that is wrong, not missing: what a reader of pages took for something else is put right."""

from conservator.pipelines.correction.corrector import Correction, Corrector
from conservator.pipelines.correction.protection import find_tokens
from conservator.pipelines.correction.result import as_restoration

__all__ = ["Correction", "Corrector", "as_restoration", "find_tokens"]
