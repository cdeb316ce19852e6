"""The vocabulary contract: V tokens, the text that they stand for, and the constraint that their text must keep."""

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
    """What every text must satisfy: UTF-8, where tokens are bytes.

    Tokens are (L,) integers, with the vocabulary's mask id where any token may stand.
    """

    def reduce(self, log_probs: Tensor) -> Any:
        """Keep of predictions (n, V) for lost positions what ``best`` needs of them."""

    def empty(self, count: int) -> Any:
        """Room for the reduced predictions of ``count`` lost positions."""

    def best(self, tokens: NDArray[Any], candidates: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The most likely allowed tokens at the lost positions (n,), and the probability of each (n,)."""

    def violations(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """(L,) True at the fewest visible tokens without which the rest can be completed to an allowed text."""

    def allows(self, tokens: NDArray[Any], start: int, stop: int) -> bool:
        """Whether a text that is allowed elsewhere is allowed from ``start`` to ``stop``, too."""

    def reachable(self, tokens: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(L + 1,) the sets of states, as bits, that the tokens before each place and those after it allow."""

    def step(self, states: int) -> NDArray[np.int64]:
        """(V,) for each token the set of states after it, from the set ``states``."""

    def seal(self, tokens: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[Any]:
        """The tokens of an excerpt, made allowed by themselves at the ``cuts``, before which others are left out."""


class Vocabulary(Protocol):
    """V tokens.

    ``mask`` is the id of a lost token. It is not one of the V tokens, and no expert predicts it. Two vocabularies are
    the same where their fingerprints are: two tokenizers of one size are not.
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
    """Tokens 0 ... V - 1 that stand for no text: simulated worlds and exact oracles."""

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
        """There is one such vocabulary of each size."""
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
