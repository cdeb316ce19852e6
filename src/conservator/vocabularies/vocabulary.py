"""The vocabulary contract: V tokens, the text that they stand for, and the constraint that a text must satisfy."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Encoded:
    """A text as tokens.

    Attributes:
        tokens: (L,) int64.
        spans: (L, 2) the bytes of the text that each token stands for, as half-open ranges.
    """

    tokens: NDArray[np.int64]
    spans: NDArray[np.int64]


class Constraint(Protocol):
    """What every text must satisfy, such as valid UTF-8 where tokens are bytes.

    Tokens are (L,) integers; the vocabulary's mask id stands for a lost token.
    """

    def reduce(self, log_probs: Tensor) -> Any:
        """Reduce predictions (n, V) for lost positions to what ``best`` needs."""

    def unread(self, tokens: NDArray[Any]) -> Any:
        """What ``best`` needs for n positions before they are predicted: they stay ``tokens`` (n,), wherever they can.

        The mask id stands for a token of which nothing is known; it becomes one that joins with no other.
        """

    def best(self, tokens: NDArray[Any], candidates: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The most likely allowed tokens at the lost positions (n,), and the probability of each (n,)."""

    def violations(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """(L,) True at the fewest visible tokens that must count as lost for the rest to fit into an allowed text."""

    def reachable(self, tokens: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Two arrays (L + 1,) of bit sets: the states that the tokens before each place, and those after it, allow."""

    def step(self, states: int) -> NDArray[np.int64]:
        """(V,) for each token the set of states after it, from the set ``states``."""

    def seal(self, tokens: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[Any]:
        """The tokens of an excerpt, changed at its ``cuts``, where tokens are left out, so that it is allowed alone."""


class Vocabulary(Protocol):
    """V tokens.

    ``mask`` is the id of a lost token. It is not one of the V tokens, and no expert predicts it. Two vocabularies are
    the same if their fingerprints are equal; equal sizes are not enough.
    """

    @property
    def size(self) -> int:
        """V, without the mask."""

    @property
    def mask(self) -> int:
        """The id of a lost token."""

    @property
    def fingerprint(self) -> str:
        """A name or hash that says which token means what."""

    @property
    def constraint(self) -> Constraint | None:
        """What the text of the tokens must satisfy, or None."""

    def encode(self, data: bytes) -> Encoded:
        """Cut a text into tokens."""

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """The text of tokens (L,)."""


@dataclass(frozen=True)
class Numbered:
    """Tokens 0 ... V - 1 that stand for no text, for simulations and exact oracles."""

    size: int

    def __post_init__(self) -> None:
        """Check the size."""
        whole = hasattr(self.size, "__index__") and not isinstance(self.size, bool)
        if not whole or self.size < 1:
            raise ConservatorError(f"the vocabulary size is {self.size!r}; it must be a whole number of at least 1")

    @property
    def mask(self) -> int:
        """The id after the last token."""
        return self.size

    @property
    def fingerprint(self) -> str:
        """The size alone identifies the vocabulary."""
        return f"numbers {self.size}"

    @property
    def constraint(self) -> None:
        """Any sequence is allowed."""
        return None

    def encode(self, data: bytes) -> Encoded:
        """There is no text to encode."""
        raise ConservatorError("numbered tokens stand for no text")

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """There is no text to decode."""
        raise ConservatorError("numbered tokens stand for no text")
