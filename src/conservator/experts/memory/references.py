"""References: texts like the document, which a memory recalls too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conservator.errors import ConservatorError
from conservator.experts.memory.index import UNKNOWN, Index, Ints, Text, around, build_index, gram
from conservator.experts.memory.retrieval import SKIPPED

LARGEST = 64 * 2**20  # bytes of all references; their index takes about 30 times as much memory
APART = np.full(SKIPPED + 1, UNKNOWN, dtype=np.int16)  # between two texts
SHAPES = [around(3), around(2), gram(5), [-3, -2, 1, 2], [-2, -1, 2, 3]]


class MemorySource(NamedTuple):
    """Where a byte was remembered from: the name of the text (None for the document itself), and the line, from 1."""

    name: str | None
    line: int


@dataclass(frozen=True)
class References:
    """Texts with an index.

    Attributes:
        names: of each text.
        begins: (n,) where each text begins in the index.
        index: of all texts, one after the other.
    """

    names: Sequence[str]
    begins: Ints
    index: Index

    def sources(self, places: Ints) -> list[MemorySource]:
        """Which text each of some places of the index belongs to, and the line."""
        number = np.searchsorted(self.begins, places, side="right") - 1
        lines = lines_before(self.index.text, places) - lines_before(self.index.text, self.begins)[number]
        return [
            MemorySource(self.names[one], 1 + line) for one, line in zip(number.tolist(), lines.tolist(), strict=True)
        ]


def make_references(texts: Iterable[tuple[str, Text]]) -> References | None:
    """Index texts, given by name and bytes: (n,) UNKNOWN where a byte is lost. None if all are empty."""
    names, parts, total = [], [], 0
    for name, content in texts:
        if len(content):
            names.append(name)
            parts.append(content)
            total += len(content) + len(APART)
        if total > LARGEST:
            raise ConservatorError(f"the references have more than {LARGEST} bytes, with {name}; give fewer")
    if not parts:
        return None
    begins = np.cumsum([0, *(len(part) + len(APART) for part in parts[:-1])])
    return References(tuple(names), begins, index_texts(parts))


def index_texts(texts: Sequence[Text]) -> Index:
    """Index texts, one after the other; no match goes on from one into the next."""
    return build_index(np.concatenate([part for text in texts for part in (text, APART)]), SHAPES)


def lines_before(text: Text, places: Ints) -> Ints:
    """(n,) how many lines end before each of some places of a text."""
    return np.searchsorted(np.flatnonzero(text == ord("\n")), places)
