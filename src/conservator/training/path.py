"""What training hides: the mask-source path (a token is visible with probability kappa), and encoding losses."""

import torch
from torch import Tensor

from conservator.vocabularies import CHARACTERS


def noise(tokens: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw stratified times kappa (B,) and the positions (B, L) that the path hides at them.

    The times rise along the batch, one in each of B equal parts of [0, 1), so rows have to be in random order.
    """
    batch = len(tokens)
    kappa = (torch.arange(batch) + torch.rand(batch, generator=generator)) / batch
    return kappa, torch.rand(tokens.shape, generator=generator) >= kappa[:, None]


def encoding_loss(tokens: Tensor, hidden: Tensor) -> list[Tensor]:
    """Hide, in three of four rows of characters, those outside ASCII and nothing else; elsewhere, what ``hidden`` says.

    That is what a text loses if it is read in the wrong encoding. A character without a token of its own stays visible.

    Args:
        tokens: (B, L) tokens of ``CHARACTERS``.
        hidden: (B, L) positions that the mask-source path hides.

    Returns:
        What is hidden, (B, L) for either kind of row, False in the rows of the other kind.
    """
    outside = torch.from_numpy(CHARACTERS.outside).to(tokens.device)[tokens]
    decoded = (torch.arange(len(tokens), device=tokens.device) % 4 > 0)[:, None]
    return [hidden & (tokens != CHARACTERS.other) & ~decoded, outside & decoded]
