"""A document in editorial notation as the text that models read, and the way back to the document."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from conservator.notation.lacuna import Lacuna

Range = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """A part of a document.

    Attributes:
        start: First byte in the document.
        stop: End in the document, in bytes.
        text: How models read it, in UTF-8: its bytes, nothing (markup), or the marker of a lacuna.
        lacuna: The lacuna that it stands for; None for text and markup.
        markup: XML before and after restored text, if it is written with markup.
    """

    start: int
    stop: int
    text: bytes
    lacuna: Lacuna | None = None
    markup: tuple[bytes, bytes] | None = None


@dataclass(frozen=True)
class ReadingText:
    """A document in parts.

    Attributes:
        source: The document in UTF-8.
        parts: Its parts, in order; they cover the document.
    """

    source: bytes
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, source: bytes, parts: Iterable[Part]) -> "ReadingText":
        """Join neighbouring parts that models read as they are, and check that the parts cover the document."""
        joined: list[Part] = []
        for part in parts:
            last = joined[-1] if joined else None
            assert part.start == (last.stop if last else 0)
            if last is not None and is_verbatim(source, last) and is_verbatim(source, part):
                joined[-1] = Part(last.start, part.stop, last.text + part.text)
            elif part.stop > part.start or part.text:
                joined.append(part)
        assert (joined[-1].stop if joined else 0) == len(source)
        return cls(source, tuple(joined))

    def with_marks(self, mark: str, markup: tuple[bytes, bytes] | None = None) -> "ReadingText":
        """Return the document in which a run of n marks is a lacuna of n characters; ``markup``: as in ``Part``."""
        encoded = mark.encode()
        parts: list[Part] = []
        for part in self.parts:
            done = part.start
            for match in re.finditer(
                b"(?:%s)+" % re.escape(encoded), part.text if is_verbatim(self.source, part) else b""
            ):
                start, stop = part.start + match.start(), part.start + match.end()
                lacuna = Lacuna((stop - start) // len(encoded), is_exact=True)
                parts += [
                    Part(done, start, self.source[done:start]),
                    Part(start, stop, lacuna.marker.encode(), lacuna, markup),
                ]
                done = stop
            parts.append(part if done == part.start else Part(done, part.stop, self.source[done : part.stop]))
        return ReadingText.of(self.source, parts)

    @cached_property
    def data(self) -> bytes:
        """The text that models read, in UTF-8."""
        return b"".join(part.text for part in self.parts)

    @cached_property
    def starts(self) -> list[int]:
        """Start of each part in ``data``, and its end."""
        return list(accumulate((len(part.text) for part in self.parts), initial=0))

    @property
    def lacunae(self) -> list[tuple[Range, Part]]:
        """The range in ``data`` of each lacuna, and its part."""
        ranges = zip(self.starts, self.starts[1:], self.parts, strict=False)
        return [((start, stop), part) for start, stop, part in ranges if part.lacuna is not None]

    def source_range(self, start: int, stop: int) -> Range | None:
        """Return the range of the document for a range of ``data``; None if markup is within it."""
        first = bisect_right(self.starts, start) - 1
        while first < len(self.parts) and not self.parts[first].text:
            first += 1
        if first == len(self.parts):
            return (len(self.source), len(self.source)) if start == stop else None
        part, offset = self.parts[first], start - self.starts[first]
        if not is_verbatim(self.source, part):
            is_whole = offset == 0 and stop == self.starts[first + 1]
            return (part.start, part.stop) if is_whole else (part.start, part.start) if start == stop else None
        if stop > self.starts[first + 1]:
            return None
        return part.start + offset, part.start + offset + stop - start

    def reading_range(self, start: int, stop: int) -> Range | None:
        """Return the range of ``data`` for a range of the document: of a lacuna, or of text; None for other ranges."""
        for begin, part in zip(self.starts, self.parts, strict=False):
            if (part.start, part.stop) == (start, stop) and part.text:
                return begin, begin + len(part.text)
            if part.start <= start <= stop <= part.stop and is_verbatim(self.source, part):
                return begin + start - part.start, begin + stop - part.start
        return None


def is_verbatim(source: bytes, part: Part) -> bool:
    """Return whether models read a part as it is."""
    return part.lacuna is None and part.text == source[part.start : part.stop]
