"""Probability paths: at time kappa a token is kept with probability kappa, else noise (0 = noise, 1 = data)."""

import torch
from torch import Tensor


def noise(tokens: Tensor, generator: torch.Generator, max_noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draw stratified times kappa (B,) and flags (B, L) of the noisy positions.

    The times increase along the batch, one in each of B equal parts of [1 - max_noise, 1). The rows must therefore be
    in random order.
    """
    batch = len(tokens)
    kappa = 1 - max_noise + max_noise * (torch.arange(batch) + torch.rand(batch, generator=generator)) / batch
    return kappa, torch.rand(tokens.shape, generator=generator) >= kappa[:, None]


def replace_uniformly(tokens: Tensor, noisy: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Replace the ``noisy`` positions by uniform draws from ``size`` tokens: the path of the uniform source."""
    return torch.where(noisy, torch.randint(size, tokens.shape, generator=generator), tokens)
