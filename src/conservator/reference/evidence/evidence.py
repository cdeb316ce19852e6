"""The evidence contract: a function of the field, and its gradient."""

from typing import Protocol

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError


class Evidence(Protocol):
    """L(lambda; y), averaged over the observations, and its gradient with respect to the field."""

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return L(lambda) in nats, a scalar, and dL/dlambda: (L, m), for ``field`` (L, m)."""


def check_observations(observation: Observation, length: int, vocab_size: int) -> Observation:
    """Return observations as (N, L) with N >= 1; raise unless length and vocabulary match the experts."""
    tokens = torch.atleast_2d(observation.tokens)
    if tokens.ndim != 2 or len(tokens) == 0:
        raise ConservatorError(f"observations must have the shape (N, L) with N >= 1, got {tuple(tokens.shape)}")
    if tokens.shape[1] != length:
        raise ConservatorError(f"the observations have {tokens.shape[1]} positions, the experts {length}")
    if observation.vocab_size != vocab_size:
        raise ConservatorError(f"the channel has {observation.vocab_size} tokens, the experts {vocab_size}")
    return observation if observation.tokens.ndim == 2 else observation[None]


def check_energies(energies: Tensor) -> Tensor:
    """Return ``energies`` (m, L, ...) as float64; raise unless they are finite, as the propositions assume."""
    if energies.ndim != 3 or not torch.isfinite(energies).all():
        raise ConservatorError(
            f"energies of experts must be finite, with the shape (m, L, ...), got the shape {tuple(energies.shape)}"
        )
    return energies.double()
