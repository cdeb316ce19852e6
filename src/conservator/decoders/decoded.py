"""What a decoder returns."""

from dataclasses import dataclass, field

from torch import Tensor

from conservator.experts import Cost


@dataclass(frozen=True)
class Decoded:
    """Restored tokens and how sure each is.

    Attributes:
        tokens: (..., L) the most likely token at every position.
        confidence: (..., L) its probability; 1 where the token was known.
        cost: what it took.
    """

    tokens: Tensor
    confidence: Tensor
    cost: Cost = field(default_factory=Cost)
