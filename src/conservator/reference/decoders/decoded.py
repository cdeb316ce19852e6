"""The result of a decoder."""

from dataclasses import dataclass, field

from torch import Tensor

from conservator.experts import Cost


@dataclass(frozen=True)
class Decoded:
    """Restored tokens and their confidence.

    Attributes:
        tokens: (..., L) the most likely token at every position.
        confidence: (..., L) its probability; 1 at known tokens.
        cost: network evaluations and seconds.
    """

    tokens: Tensor
    confidence: Tensor
    cost: Cost = field(default_factory=Cost)
