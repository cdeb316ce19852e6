"""The evidence contract: a function of the field, and its gradient."""

from typing import Protocol

from torch import Tensor


class Evidence(Protocol):
    """L(lambda; y), averaged over the observations, and how it changes with the field."""

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return L(lambda) in nats, a scalar, and dL/dlambda: (L, m), for ``field`` (L, m)."""
