"""Symbols of a text for its alignment with other texts: characters, runs of whitespace, marks and gap markers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conservator.arrays import Ints
from conservator.documents.damaged import MARK, MOJIBAKE_MARK

LOST_SYMBOL = "\uffff"  # stands for a mark: one lost byte or character
GAP_SYMBOL = "\ufffe"  # stands for a gap marker
INVALID = "[\udc80-\udcff]"  # an invalid byte, decoded with surrogateescape
LOST_SYMBOLS = re.compile(f"[{LOST_SYMBOL}{GAP_SYMBOL}]|{INVALID}")


@dataclass(frozen=True)
class SymbolText:
    """A text as n symbols.

    Attributes:
        data: The text in UTF-8, possibly with invalid bytes.
        symbols: One character for each symbol: " " for a run of whitespace, LOST_SYMBOL, GAP_SYMBOL, a surrogate for an
            invalid byte, or a character.
        edges: (n + 1,) the first byte of each symbol, and the length of ``data``.
    """

    data: bytes
    symbols: str
    edges: Ints

    @classmethod
    def of(cls, data: bytes, mark: str, gaps: Sequence[str] = ()) -> "SymbolText":
        """Read the symbols of a text."""
        text = data.decode(errors="surrogateescape")
        marks = (mark, MOJIBAKE_MARK) if mark == MARK else (mark,)
        markers = "|".join(re.escape(marker) for marker in sorted((*gaps, *marks), key=len, reverse=True))
        parts: list[str] = []
        starts: list[Ints] = []
        done = 0
        for match in re.finditer(rf"{markers}|\s+", text):
            symbol = " " if match[0].isspace() else GAP_SYMBOL if match[0] in gaps else LOST_SYMBOL
            parts += [text[done : match.start()], symbol]
            starts.append(np.arange(done, match.start() + 1))
            done = match.end()
        parts.append(text[done:])
        starts.append(np.arange(done, len(text) + 1))
        sizes = [len(character.encode(errors="surrogateescape")) for character in text]
        edges: Ints = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])[np.concatenate(starts)]
        return cls(data, "".join(parts), edges)

    def bytes_of(self, start: int, stop: int) -> bytes:
        """Return the bytes of a range of symbols."""
        return self.data[self.edges[start] : self.edges[stop]]
