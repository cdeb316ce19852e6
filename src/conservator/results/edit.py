"""Edits: the fills and the corrections of a document, in one type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from conservator.decoders import Candidate
from conservator.experts import MemorySource


@dataclass(frozen=True)
class Edit:
    """New text for a span of the damaged document: a fill of lost text, or a correction.

    Attributes:
        span: Half-open range of bytes of the damaged document that the text replaces.
        data: The new text in UTF-8; the best candidate where it is unfilled. A fill may start or end within a
            character, if the rest of the character is visible.
        probability: Probability that the whole text is correct. For a fill it is the product of the confidences of its
            bytes and of the probabilities of its gap lengths.
        log_odds: Log-probability minus that of the observed text, in nats. None if the observed text is not possible,
            as at a mark, or was pruned.
        alternatives: Best candidates for the same span, including this one, if they were requested.
        sources: Index of a byte of ``data`` -> the text and line that the memory copied it from.
        placeholders: Index of an unfilled byte of ``data`` -> the marker that is written instead; empty for the further
            bytes of the same marker.
        byte_spans: Half-open range of the marker that each byte of ``data`` stands for; empty if that is ``span`` for
            all of them.
        is_fixed: Whether the user supplied the text.
        markup: XML before and after the text, if it is written with markup.
    """

    span: tuple[int, int]
    data: bytes
    probability: float
    log_odds: float | None = None
    alternatives: tuple[Candidate, ...] = ()
    sources: Mapping[int, MemorySource] = field(default_factory=dict)
    placeholders: Mapping[int, bytes] = field(default_factory=dict)
    byte_spans: tuple[tuple[int, int], ...] = ()
    is_fixed: bool = False
    markup: tuple[bytes, bytes] | None = None

    @property
    def text(self) -> str:
        """The new text; a part of a character is shown as U+FFFD."""
        return self.data.decode(errors="replace")

    def written(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes ``start`` to ``stop`` of ``data`` as they are written: markers where it is unfilled."""
        if not self.placeholders and self.markup:
            text = self.data[start:stop].decode(errors="replace")
            return self.markup[0] + escape(text, quote=False).encode() + self.markup[1]
        if not self.placeholders:
            return self.data[start:stop]
        indices = range(len(self.data))[start:stop]
        return b"".join(self.placeholders.get(index, self.data[index : index + 1]) for index in indices)


@dataclass(frozen=True)
class Gap:
    """A gap of unknown length.

    Attributes:
        span: Half-open range of bytes of the gap marker in the damaged document.
        at: Half-open range of positions of the chosen length.
        length_probability: Probability of the chosen length.
    """

    span: tuple[int, int]
    at: tuple[int, int]
    length_probability: float
