"""Editorial notation: documents in Leiden conventions or EpiDoc XML, as texts with lacunae that models can read."""

from conservator.notation.epidoc import is_epidoc, read_epidoc
from conservator.notation.lacuna import Lacuna, lacuna_of
from conservator.notation.leiden import damage_in_leiden, read_leiden
from conservator.notation.reading_text import Part, ReadingText

__all__ = [
    "Lacuna",
    "Part",
    "ReadingText",
    "damage_in_leiden",
    "is_epidoc",
    "lacuna_of",
    "read_epidoc",
    "read_leiden",
]
