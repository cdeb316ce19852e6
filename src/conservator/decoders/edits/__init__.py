"""Correct text that may be wrong anywhere: a beam over edits, and what each change gains."""

from conservator.decoders.edits.arcs import StepTable
from conservator.decoders.edits.beam import Beam, Lattice
from conservator.decoders.edits.changes import Change, find_changes
from conservator.decoders.edits.spans import Stretch, find_stretches

__all__ = ["Beam", "Change", "Lattice", "StepTable", "Stretch", "find_changes", "find_stretches"]
