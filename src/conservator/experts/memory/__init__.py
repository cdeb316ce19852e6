"""Memory: an expert made from the document that is restored, and from references."""

from conservator.experts.memory.expert import Memory, MemoryExpert
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.references import LARGEST, MemorySource, References, make_references

__all__ = ["LARGEST", "Memory", "MemoryExpert", "MemorySource", "References", "load_phrases", "make_references"]
