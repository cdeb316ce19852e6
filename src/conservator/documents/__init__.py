"""Documents as bytes: find what was lost, damage a document for tests, compare a restoration with the original."""

from conservator.documents.compare import Comparison, compare_documents
from conservator.documents.damage import damage
from conservator.documents.damaged import LOST, MARK, Damaged, Surroundings, read_damaged

__all__ = ["LOST", "MARK", "Comparison", "Damaged", "Surroundings", "compare_documents", "damage", "read_damaged"]
