"""Documents as bytes: find what was lost, damage a document for tests, compare a restoration with the original."""

from conservator.documents.compare import Comparison, compare_documents
from conservator.documents.damage import damage
from conservator.documents.damaged import LOST, MARK, Damaged, Known, Surroundings, read_damaged
from conservator.documents.encoding import UTF8, Source, read_source, write_text

__all__ = [
    "LOST",
    "MARK",
    "UTF8",
    "Comparison",
    "Damaged",
    "Known",
    "Source",
    "Surroundings",
    "compare_documents",
    "damage",
    "read_damaged",
    "read_source",
    "write_text",
]
