"""References: undamaged texts that the memory retrieves from, in addition to the document."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conservator.arrays import Ints
from conservator.errors import ConservatorError
from conservator.experts.memory.config import CONFIG
from conservator.experts.memory.index import (
    UNKNOWN,
    Index,
    Text,
    build_index,
    ngram_context,
    surrounding_context,
)

# bytes: total size of all references; their index needs about 30 times as much memory [safety limit]
MAX_REFERENCE_BYTES = 64 * 2**20
SEPARATOR = np.full(CONFIG.max_hidden_run + 1, UNKNOWN, dtype=np.int16)  # between two texts; no match passes it
SHAPES = [surrounding_context(3), surrounding_context(2), ngram_context(5), [-3, -2, 1, 2], [-2, -1, 2, 3]]


class MemorySource(NamedTuple):
    """Source of a retrieved byte: the name of the text, None for the document itself, and the line, from 1."""

    name: str | None
    line: int


@dataclass(frozen=True)
class References:
    """Indexed reference texts.

    Attributes:
        names: name of each text.
        begins: (n,) position of the first byte of each text in the index.
        index: index of all texts, concatenated.
    """

    names: Sequence[str]
    begins: Ints
    index: Index

    def sources(self, positions: Ints) -> list[MemorySource]:
        """Return the text and the line of each position of the index."""
        numbers = np.searchsorted(self.begins, positions, side="right") - 1
        lines = lines_before(self.index.text, positions) - lines_before(self.index.text, self.begins)[numbers]
        return [
            MemorySource(self.names[number], 1 + line)
            for number, line in zip(numbers.tolist(), lines.tolist(), strict=True)
        ]


def make_references(texts: Iterable[tuple[str, Text]]) -> References | None:
    """Index texts, given as name and bytes (n,) with UNKNOWN for lost bytes. Return None if all texts are empty."""
    names, parts, total = [], [], 0
    for name, content in texts:
        if len(content):
            names.append(name)
            parts.append(content)
            total += len(content) + len(SEPARATOR)
        if total > MAX_REFERENCE_BYTES:
            raise ConservatorError(
                f"the references have more than {MAX_REFERENCE_BYTES} bytes, with {name}; pass fewer references"
            )
    if not parts:
        return None
    begins = np.cumsum([0, *(len(part) + len(SEPARATOR) for part in parts[:-1])])
    return References(tuple(names), begins, index_texts(parts))


def index_texts(texts: Sequence[Text]) -> Index:
    """Index the concatenation of texts. No match extends over the end of a text."""
    return build_index(np.concatenate([part for text in texts for part in (text, SEPARATOR)]), SHAPES)


def lines_before(text: Text, positions: Ints) -> Ints:
    """Count the line ends before each position of a text: (n,)."""
    return np.searchsorted(np.flatnonzero(text == ord("\n")), positions)
