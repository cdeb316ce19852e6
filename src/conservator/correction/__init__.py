"""Text that is wrong, not missing: what a reader of pages took for something else is put right."""

from conservator.correction.corrector import Correction, Corrector
from conservator.correction.protection import find_tokens
from conservator.correction.result import as_restoration

__all__ = ["Correction", "Corrector", "as_restoration", "find_tokens"]
