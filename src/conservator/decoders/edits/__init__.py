"""Correct text that may be wrong anywhere: a beam over edits, and what each change gains."""

from conservator.decoders.edits.arcs import ArcTable
from conservator.decoders.edits.beam import Beam, Lattice
from conservator.decoders.edits.changes import Change, find_changes
from conservator.decoders.edits.spans import Stretch, find_stretches

__all__ = ["ArcTable", "Beam", "Change", "Lattice", "Stretch", "find_changes", "find_stretches"]
