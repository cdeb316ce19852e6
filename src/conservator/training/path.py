"""The mask-source path: at time kappa a token is visible with probability kappa (0 = noise, 1 = data)."""

import torch
from torch import Tensor


def noise(tokens: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw stratified times kappa (B,) and the positions (B, L) that the path hides at them.

    The times rise along the batch, one in each of B equal parts of [0, 1), so rows have to be in random order.
    """
    batch = len(tokens)
    kappa = (torch.arange(batch) + torch.rand(batch, generator=generator)) / batch
    return kappa, torch.rand(tokens.shape, generator=generator) >= kappa[:, None]
