"""Memory: an expert made from the document that is restored, and from references."""

from conservator.experts.memory.expert import Memory, Recollection
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.references import LARGEST, References, Remembered, make_references

__all__ = ["LARGEST", "Memory", "Recollection", "References", "Remembered", "load_phrases", "make_references"]
