"""Rescoring: causal experts choose the uncertain bytes of a text again, given the whole text around them."""

from conservator.decoders.rescoring.rescore import ITERATIONS, Rescored, SpanPosterior, rescore
from conservator.decoders.rescoring.search import SearchLimits
from conservator.decoders.rescoring.spans import CHUNK_BYTES, Span

__all__ = ["CHUNK_BYTES", "ITERATIONS", "Rescored", "SearchLimits", "Span", "SpanPosterior", "rescore"]
