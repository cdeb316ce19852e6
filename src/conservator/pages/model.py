"""What a reader of pages wrote: pages of lines of words, with boxes, confidences and other readings."""

from dataclasses import dataclass
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle on a page, in the unit of its file; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def joined(self, other: "Box") -> "Box":
        """The smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


class Alternative(NamedTuple):
    """Another reading of a glyph or a word, and how sure the reader was of it, from 0 to 1."""

    text: str
    confidence: float | None


@dataclass(frozen=True)
class Glyph:
    """A character, or several that were read as one.

    Attributes:
        text: what was read.
        confidence: how sure the reader was, from 0 to 1; None if it did not say.
        box: where it stands.
        alternatives: other readings.
    """

    text: str
    confidence: float | None = None
    box: Box | None = None
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class Word:
    """A word, or whatever the file has between two spaces.

    Attributes:
        text: its characters, never empty and without blanks at its ends; with the hyphen at the end of a line.
        confidence: how sure the reader was, from 0 to 1; None if it did not say.
        box: where it stands.
        glyphs: its characters one by one, where the file has them; else empty. Their texts make up ``text``, unless the
            word was corrected after it was read.
        alternatives: other readings of the word.
        whole: the word that it is a part of, if the file says that it was hyphenated at the end of a line.
        original: what had been read, if the file says that it was corrected.
    """

    text: str
    confidence: float | None = None
    box: Box | None = None
    glyphs: tuple[Glyph, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    whole: str | None = None
    original: str | None = None


@dataclass(frozen=True)
class Line:
    """A line: its words, never none, its box, and the number of its paragraph (or block) on the page, from 0."""

    words: tuple[Word, ...]
    box: Box | None = None
    block: int = 0


@dataclass(frozen=True)
class Page:
    """A page: its lines in reading order, its box, and the name of its image, where the file has them."""

    lines: tuple[Line, ...]
    box: Box | None = None
    image: str | None = None


@dataclass(frozen=True)
class Change:
    """Words ``start`` to ``stop`` of a transcript, all on one line, become ``text``.

    Attributes:
        start: the first word.
        stop: the word after the last.
        text: what stands there instead. Blanks part it into words; as many words as before take the old boxes one by
            one, any other number divides the box around all. An empty text leaves the words without text.
        confidence: how sure the new text is, from 0 to 1; None leaves what the file says.
    """

    start: int
    stop: int
    text: str
    confidence: float | None = None
