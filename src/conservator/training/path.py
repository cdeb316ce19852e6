"""The paths to the data: at time kappa a token is itself with probability kappa, else noise (0 = noise, 1 = data)."""

import torch
from torch import Tensor


def noise(tokens: Tensor, generator: torch.Generator, most: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draw stratified times kappa (B,) and the positions (B, L) that the path hides at them.

    The times rise along the batch, one in each of B equal parts of [1 - most, 1), so rows have to be in random order.
    """
    batch = len(tokens)
    kappa = 1 - most + most * (torch.arange(batch) + torch.rand(batch, generator=generator)) / batch
    return kappa, torch.rand(tokens.shape, generator=generator) >= kappa[:, None]


def mislead(tokens: Tensor, noisy: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Put one of ``size`` tokens, all equally likely, at the ``noisy`` positions: the path of the uniform source."""
    return torch.where(noisy, torch.randint(size, tokens.shape, generator=generator), tokens)
