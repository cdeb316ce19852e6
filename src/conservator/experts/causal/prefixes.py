"""Tokens sorted by their bytes, in which those that begin alike stand together."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.vocabularies.tokens import Ints, Tokens


@dataclass(frozen=True)
class Prefix:
    """The tokens that begin with some bytes: a range of the tokens sorted.

    Attributes:
        text: these bytes.
        low: where the range begins.
        ended: how many of its tokens, the first ones, are these bytes and no more.
        onward: (m,) the bytes that come next in the others, ascending.
        bounds: (m + 1,) where the tokens with each of them begin, counted from ``low``; the last is the range's end.
    """

    text: bytes
    low: int
    ended: int
    onward: Ints
    bounds: Ints

    def after(self, byte: int) -> slice:
        """Where in the range the tokens that go on with a byte stand."""
        place = int(np.searchsorted(self.onward, byte))
        if place == len(self.onward) or self.onward[place] != byte:
            return slice(0, 0)
        return slice(int(self.bounds[place]), int(self.bounds[place + 1]))


class Prefixes:
    """All R tokens that stand for some text, of any length, sorted by their bytes.

    Attributes:
        numbers: (R,) the tokens.
        rows: (V,) where each token stands among them; -1 for a token that stands for no text.
    """

    def __init__(self, tokens: Tokens) -> None:
        """Sort the tokens; what begins alike is looked up when it is asked for, and kept."""
        order = sorted((piece, number) for number, piece in enumerate(tokens.token_bytes) if piece)
        self._pieces = [piece for piece, _ in order]
        self._found: dict[bytes, Prefix] = {}
        self.numbers = np.array([number for _, number in order], dtype=np.int64)
        self.rows = np.full(tokens.size, -1)
        self.rows[self.numbers] = np.arange(len(order))

    def find(self, text: bytes) -> Prefix:
        """The tokens that begin with ``text``."""
        if text not in self._found:
            self._found[text] = self._look_up(text)
        return self._found[text]

    def _look_up(self, text: bytes) -> Prefix:
        size = len(text)
        low = bisect_left(self._pieces, text)
        high = bisect_left(self._pieces, True, lo=low, key=lambda piece: piece[:size] > text)
        first = bisect_left(self._pieces, True, lo=low, hi=high, key=lambda piece: len(piece) > size)
        nexts = np.frombuffer(bytes(piece[size] for piece in self._pieces[first:high]), dtype=np.uint8)
        onward, starts = np.unique(nexts.astype(np.int64), return_index=True)
        return Prefix(text, low, first - low, onward, np.append(starts + (first - low), high - low))

    def sort(self, laws: Tensor) -> NDArray[np.float32]:
        """The laws (n, V) of the next token, as (n, R): sorted, normalised without tokens that stand for no text."""
        return torch.log_softmax(laws[:, torch.from_numpy(self.numbers)].float(), dim=-1).numpy()


def log_sums(log_probs: NDArray[np.float32], bounds: Ints) -> NDArray[np.float64]:
    """The log-sum-exp over the ranges between m + 1 bounds, each to its own precision: (m,)."""
    if len(bounds) < 2:
        return np.empty(0)
    part = log_probs[bounds[0] : bounds[-1]].astype(np.float64)
    top = part.max()
    if top == -np.inf:
        return np.full(len(bounds) - 1, -np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.add.reduceat(np.exp(part - top), bounds[:-1] - bounds[0])) + top)
