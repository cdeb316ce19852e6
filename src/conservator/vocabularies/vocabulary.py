"""The vocabulary contract: V tokens, the text that they stand for, and the constraint on that text."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Encoded:
    """A tokenized text.

    Attributes:
        tokens: (L,) int64.
        spans: (L, 2) half-open byte ranges of the text that each token stands for.
    """

    tokens: NDArray[np.int64]
    spans: NDArray[np.int64]


class Constraint(Protocol):
    """A constraint on every text, such as valid UTF-8 if tokens are bytes.

    Tokens are (L,) integers; the vocabulary's mask id stands for a lost token.
    """

    def make_candidates(self, log_probs: Tensor) -> Any:
        """Reduce predictions (n, V) for lost positions to the candidates that ``best`` takes."""

    def initial_candidates(self, tokens: NDArray[Any]) -> Any:
        """Return candidates for n positions without predictions: ``tokens`` (n,), wherever they are allowed.

        The mask id becomes a token that is allowed beside any other.
        """

    def best(self, tokens: NDArray[Any], candidates: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the most likely allowed tokens at the lost positions (n,), and the probability of each (n,)."""

    def violations(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Return (L,) True at a smallest set of visible tokens whose removal makes the other tokens allowed."""

    def reachable(self, tokens: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bit sets (L + 1,) of the states that the tokens before, and the tokens after, each boundary allow."""

    def next_states(self, states: int) -> NDArray[np.int64]:
        """Return (V,) the set of states after each token, from the set ``states``."""

    def close_at_cuts(self, tokens: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[Any]:
        """Change the tokens of an excerpt at its ``cuts``, where tokens are omitted, so that the excerpt is allowed."""


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
        """A name or hash that identifies the mapping from tokens to text."""

    @property
    def constraint(self) -> Constraint | None:
        """The constraint on the text of the tokens, or None."""

    def encode(self, data: bytes) -> Encoded:
        """Tokenize a text."""

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Return the text of tokens (L,)."""


@dataclass(frozen=True)
class NumberedVocabulary:
    """Tokens 0 ... V - 1 without text, for simulations and exact oracles."""

    size: int

    def __post_init__(self) -> None:
        """Check the size."""
        is_integer = hasattr(self.size, "__index__") and not isinstance(self.size, bool)
        if not is_integer or self.size < 1:
            raise ConservatorError(f"the vocabulary size must be an integer of at least 1, got {self.size!r}")

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
        """Raise an error: the tokens have no text."""
        raise ConservatorError("the tokens of a NumberedVocabulary have no text")

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Raise an error: the tokens have no text."""
        raise ConservatorError("the tokens of a NumberedVocabulary have no text")
