"""Correct text that may be wrong anywhere: a beam over edits, and what each change gains."""

from conservator.decoders.correcting.beam import Beam, Lattice
from conservator.decoders.correcting.changes import Change, find_changes
from conservator.decoders.correcting.steps import StepTable
from conservator.decoders.correcting.stretches import Stretch, find_stretches

__all__ = ["Beam", "Change", "Lattice", "StepTable", "Stretch", "find_changes", "find_stretches"]
