"""Documents as bytes: what was lost in one, damage for tests, and how much came back."""

from conservator.documents.compare import Comparison, compare_documents
from conservator.documents.damage import damage
from conservator.documents.damaged import LOST, MARK, Damaged, Surroundings, read_damaged

__all__ = ["LOST", "MARK", "Comparison", "Damaged", "Surroundings", "compare_documents", "damage", "read_damaged"]
