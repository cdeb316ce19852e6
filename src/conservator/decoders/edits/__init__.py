"""Correct uncertain text: a beam over edits, and the log-odds of each change."""

from conservator.decoders.edits.arcs import ArcTable
from conservator.decoders.edits.beam import Beam, LineLattice
from conservator.decoders.edits.changes import Change, find_changes
from conservator.decoders.edits.spans import UncertainSpan, find_uncertain_spans

__all__ = ["ArcTable", "Beam", "Change", "LineLattice", "UncertainSpan", "find_changes", "find_uncertain_spans"]
