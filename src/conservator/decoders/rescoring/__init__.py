"""Rescoring: causal experts choose the uncertain parts of a text again, given the whole text around them."""

from conservator.decoders.rescoring.rescore import ITERATIONS, Rescored, SpanPosterior, choose_listed, rescore
from conservator.decoders.rescoring.search import SearchLimits
from conservator.decoders.rescoring.slots import Draft, Slot, open_bytes
from conservator.decoders.rescoring.spans import CHUNK_BYTES, longest_run

__all__ = [
    "CHUNK_BYTES",
    "ITERATIONS",
    "Draft",
    "Rescored",
    "SearchLimits",
    "Slot",
    "SpanPosterior",
    "choose_listed",
    "longest_run",
    "open_bytes",
    "rescore",
]
