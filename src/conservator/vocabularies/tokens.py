"""Tokens that stand for several bytes: which, how a text is cut into them, and which fit a damaged text."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.vocabularies.bytes import BYTES
from conservator.vocabularies.vocabulary import Encoded

LONGEST = 16  # bytes: longer tokens are not tried in damaged text
STRANGERS = "\ue000\uf8ff\U000f0000\U0010fffd"  # characters of private use, which texts hardly have

Ints = NDArray[np.int64]


class Tokens:
    """The vocabulary of V tokens, each of which stands for some bytes.

    A text can mostly be cut in many ways. A model was trained on one of them, its canonical cut, and hardly any
    probability is in the others; so where ``cut`` is given, only canonical cuts are tried. Then the probability of a
    text is a lower bound. Without it, every cut is tried, and it is exact.

    Attributes:
        pieces: the bytes of each token; ``b""`` for a token that stands for no text.
    """

    def __init__(self, pieces: Sequence[bytes], cut: Callable[[str], list[int]] | None = None) -> None:
        """Take the pieces, and the function that cuts a text canonically into them."""
        self.pieces = tuple(pieces)
        self._cut = cut
        self._pairs: dict[tuple[int, int], bool] = {}

    @property
    def size(self) -> int:
        """V, the number of tokens."""
        return len(self.pieces)

    @property
    def mask(self) -> int:
        """The id after the last token, whatever id a network has for a mask."""
        return len(self.pieces)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the pieces."""
        spelt = b"".join(len(piece).to_bytes(4, "big") + piece for piece in self.pieces)
        return f"tokens {hashlib.sha256(spelt).hexdigest()}"

    @property
    def constraint(self) -> None:
        """Any sequence is allowed."""
        return None

    def encode(self, data: bytes) -> Encoded:
        """Cut a text, and say which bytes each token stands for."""
        try:
            tokens = self.cut(data.decode())
        except UnicodeDecodeError as error:
            raise ConservatorError(f"only UTF-8 can be cut into tokens: {error}") from error
        ends = np.cumsum([len(self.pieces[token]) for token in tokens], dtype=np.int64)
        return Encoded(np.array(tokens, dtype=np.int64), np.stack([np.concatenate([[0], ends])[:-1], ends], axis=1))

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """The bytes of tokens (L,)."""
        return b"".join(self.pieces[token] for token in tokens.tolist())

    def cut(self, text: str) -> list[int]:
        """Cut a text: canonically if the canonical cut is known, else by the longest piece that fits, from the left."""
        if self._cut is not None:
            return self._cut(text)
        data, found = text.encode(), []
        while data:
            row = max(self.fitting(list(data[: self.longest])), key=lambda row: int(self.lengths[row]))
            found.append(int(self.numbers[row]))
            data = data[int(self.lengths[row]) :]
        return found

    def follows(self, first: int, second: int) -> bool:
        """Whether the second token may stand after the first in the canonical cut of some text.

        In a cut by byte pairs alone, a whole text is cut canonically if every two neighbours are. Mostly a text is
        first cut into words, with a look at what stands around: the last space of a run goes with the word after it,
        ``'s`` is a word unless another mark stands before it. So a pair is tried between a few neighbours, too; and a
        cut in which all neighbours follow each other may still be another than the canonical one of the whole text.
        Pairs that end within a character, or begin there, are not checked: they follow.
        """
        if self._cut is None:
            return True
        pair = (first, second)
        if pair not in self._pairs:
            self._pairs[pair] = self._may_follow(first, second)
        return self._pairs[pair]

    def _may_follow(self, first: int, second: int) -> bool:
        try:
            text = (self.pieces[first] + self.pieces[second]).decode()
        except UnicodeDecodeError:
            return True
        return any(self._cuts(before, text, after, first, second) for before, after in self._neighbours(text))

    def _neighbours(self, text: str) -> Iterator[tuple[str, str]]:
        """What may stand around a text and change how it is cut, the commonest first."""
        yield "", ""
        if text[-1:].isspace():
            yield from (("", "x"), ("", self._stranger))
        if text and not text[0].isalnum() and not text[0].isspace():
            yield self._stranger, ""

    def _cuts(self, before: str, text: str, after: str, first: int, second: int) -> bool:
        """Whether a text is cut into two tokens, between its neighbours."""
        assert self._cut is not None
        cut, size = self._cut(before + text + after), 0
        for place, token in enumerate(cut):
            if size == len(before.encode()):
                return cut[place : place + 2] == [first, second]
            size += len(self.pieces[token])
        return False

    @cached_property
    def _stranger(self) -> str:
        """A character, neither a letter nor a space, that is in one token with nothing else."""
        assert self._cut is not None
        for character in STRANGERS:
            pieces = [self.pieces[token] for token in self._cut(f" {character}'")]
            if pieces[:1] == [b" "] and pieces[-1:] == [b"'"]:
                return character
        return STRANGERS[0]

    @cached_property
    def spellings(self) -> list[tuple[bytes, int]]:
        """The bytes that each token may stand for, sorted, at most LONGEST of them: the rows of what follows."""
        return sorted((piece, number) for number, piece in enumerate(self.pieces) if 0 < len(piece) <= LONGEST)

    @cached_property
    def numbers(self) -> Ints:
        """(R,) the tokens that may be tried, sorted by their bytes; one with several spellings has several rows."""
        return np.array([number for _, number in self.spellings], dtype=np.int64)

    @cached_property
    def lengths(self) -> Ints:
        """(R,) how many bytes each of them has."""
        return np.array([len(piece) for piece, _ in self.spellings], dtype=np.int64)

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(R, LONGEST) their bytes; 0 after the end of each."""
        return np.stack([np.frombuffer(piece.ljust(LONGEST, b"\0"), dtype=np.uint8) for piece, _ in self.spellings])

    @cached_property
    def longest(self) -> int:
        """The number of bytes of the longest of them."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def _first(self) -> Ints:
        """Where the tokens that begin with each byte start among those sorted."""
        return np.searchsorted(self.table[:, 0], np.arange(BYTES.size + 1))

    def fitting(self, pattern: Sequence[int]) -> Ints:
        """The rows of ``table`` whose bytes agree with the beginning of a pattern, in which the mask fits any byte."""
        low, high = (0, len(self.numbers)) if pattern[0] == BYTES.mask else self._first[pattern[0] : pattern[0] + 2]
        rows = np.arange(low, high)[self.lengths[low:high] <= len(pattern)]
        for place, byte in enumerate(pattern[: self.longest]):
            if place and byte != BYTES.mask:
                rows = rows[(self.lengths[rows] <= place) | (self.table[rows, place] == byte)]
        return rows
