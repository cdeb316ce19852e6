"""Tokens sorted by their bytes, so that the tokens with a common prefix form a range."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Ints
from conservator.vocabularies.tokens import Tokens


@dataclass(frozen=True)
class Prefix:
    """The tokens that start with a prefix: a range of the sorted tokens.

    Attributes:
        text: the bytes of the prefix.
        low: start of the range.
        ended: number of tokens that equal the prefix; they are the first of the range.
        next_bytes: (m,) the bytes that follow the prefix in the other tokens, ascending.
        bounds: (m + 1,) where the tokens with each next byte start, relative to ``low``; the last is the end of the
            range.
    """

    text: bytes
    low: int
    ended: int
    next_bytes: Ints
    bounds: Ints

    def after(self, byte: int) -> slice:
        """The part of the range whose tokens continue with a byte."""
        index = int(np.searchsorted(self.next_bytes, byte))
        if index == len(self.next_bytes) or self.next_bytes[index] != byte:
            return slice(0, 0)
        return slice(int(self.bounds[index]), int(self.bounds[index + 1]))


class Prefixes:
    """All R tokens with text, sorted by their bytes.

    Attributes:
        numbers: (R,) the token ids.
        rows: (V,) the rank of each token among them; -1 for a special token.
    """

    def __init__(self, tokens: Tokens) -> None:
        """Sort the tokens. Prefixes are looked up on demand and cached."""
        order = sorted((data, number) for number, data in enumerate(tokens.token_bytes) if data)
        self._token_bytes = [data for data, _ in order]
        self._cache: dict[bytes, Prefix] = {}
        self.numbers = np.array([number for _, number in order], dtype=np.int64)
        self.rows = np.full(tokens.size, -1)
        self.rows[self.numbers] = np.arange(len(order))

    def find(self, text: bytes) -> Prefix:
        """Return the tokens that start with ``text``."""
        if text not in self._cache:
            self._cache[text] = self._look_up(text)
        return self._cache[text]

    def _look_up(self, text: bytes) -> Prefix:
        size = len(text)
        low = bisect_left(self._token_bytes, text)
        high = bisect_left(self._token_bytes, True, lo=low, key=lambda data: data[:size] > text)
        first = bisect_left(self._token_bytes, True, lo=low, hi=high, key=lambda data: len(data) > size)
        following = np.frombuffer(bytes(data[size] for data in self._token_bytes[first:high]), dtype=np.uint8)
        next_bytes, starts = np.unique(following.astype(np.int64), return_index=True)
        return Prefix(text, low, first - low, next_bytes, np.append(starts + (first - low), high - low))

    def sort(self, log_probs: Tensor) -> NDArray[np.float32]:
        """Sort conditionals (n, V) of the next token to (n, R), normalised without special tokens."""
        return torch.log_softmax(log_probs[:, torch.from_numpy(self.numbers)].float(), dim=-1).numpy()


def log_sums(log_probs: NDArray[np.float32], bounds: Ints) -> NDArray[np.float64]:
    """Log-sum-exp over the ranges between m + 1 bounds, each with full relative precision: (m,)."""
    if len(bounds) < 2:
        return np.empty(0)
    values = log_probs[bounds[0] : bounds[-1]].astype(np.float64)
    maximum = values.max()
    if maximum == -np.inf:
        return np.full(len(bounds) - 1, -np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.add.reduceat(np.exp(values - maximum), bounds[:-1] - bounds[0])) + maximum)
