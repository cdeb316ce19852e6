"""The memory: a retrieval expert over the document, references and common phrases."""

from conservator.experts.memory.expert import Memory, MemoryExpert
from conservator.experts.memory.phrases import load_phrases
from conservator.experts.memory.references import MAX_REFERENCE_BYTES, MemorySource, References, make_references

__all__ = [
    "MAX_REFERENCE_BYTES",
    "Memory",
    "MemoryExpert",
    "MemorySource",
    "References",
    "load_phrases",
    "make_references",
]
