"""Data model of OCR output: pages of lines of words, with boxes, OCR confidences and OCR alternatives."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle on a page, in the unit of the file; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def union(self, other: "Box") -> "Box":
        """Return the smallest box around both boxes."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


def outer_box(boxes: Sequence[Box | None]) -> Box | None:
    """Return the smallest box around boxes; None if a box is missing, or if there are none."""
    known = [box for box in boxes if box is not None]
    return reduce(Box.union, known) if known and len(known) == len(boxes) else None


class TextAlternative(NamedTuple):
    """An alternative text of a glyph, with its OCR confidence from 0 to 1 (None if the file has none)."""

    text: str
    confidence: float | None


@dataclass(frozen=True)
class Glyph:
    """A character, or several characters that the OCR engine recognised as one.

    Attributes:
        text: the recognised text.
        confidence: OCR confidence from 0 to 1; None if the file has none.
        box: position on the page.
        alternatives: OCR alternatives.
    """

    text: str
    confidence: float | None = None
    box: Box | None = None
    alternatives: tuple[TextAlternative, ...] = ()


@dataclass(frozen=True)
class Word:
    """A word as the file delimits it; it may contain spaces.

    Attributes:
        text: characters, never empty and without surrounding whitespace; includes the hyphen at the end of a line.
        confidence: OCR confidence from 0 to 1; None if the file has none.
        box: position on the page.
        glyphs: the characters, if the file lists them; else empty. Their texts concatenate to ``text``, unless the word
            was corrected.
        whole: the complete word, if the file marks this word as a part of a word hyphenated at the end of a line.
        original: the recognised text, if the file marks the word as corrected.
    """

    text: str
    confidence: float | None = None
    box: Box | None = None
    glyphs: tuple[Glyph, ...] = ()
    whole: str | None = None
    original: str | None = None


@dataclass(frozen=True)
class Line:
    """A line: its words (at least one), its box, and the index of its paragraph (or block) on the page."""

    words: tuple[Word, ...]
    box: Box | None = None
    block: int = 0


@dataclass(frozen=True)
class Page:
    """A page: its lines in reading order, and its box and the name of its image, if the file has them."""

    lines: tuple[Line, ...]
    box: Box | None = None
    image: str | None = None


@dataclass(frozen=True)
class WordChange:
    """Replacement of the words ``start`` to ``stop`` of a transcript, all on one line, by ``text``.

    Attributes:
        start: index of the first word.
        stop: index after the last word.
        text: the new text, split into words at whitespace. If the number of words stays the same, each new word gets
            the box of the old word; otherwise the box around all words is divided. An empty text empties the words.
        confidence: probability of the new text, from 0 to 1; None leaves the confidence in the file as it is.
    """

    start: int
    stop: int
    text: str
    confidence: float | None = None
