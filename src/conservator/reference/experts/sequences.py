"""Enumeration of all sequences of a small vocabulary."""

import torch
from torch import Tensor

from conservator.errors import ConservatorError

LIMIT = 2**20  # rows: of an enumeration, which is meant for small models [safety limit]


def all_sequences(vocab_size: int, length: int) -> Tensor:
    """Return all V^L sequences in lexicographic order: (V^L, L)."""
    if vocab_size**length > LIMIT:
        raise ConservatorError(f"{vocab_size}^{length} sequences are too many to enumerate; the limit is {LIMIT}")
    return torch.cartesian_prod(*[torch.arange(vocab_size)] * length).reshape(-1, length)
