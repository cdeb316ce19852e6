"""Every sequence of a vocabulary small enough to enumerate."""

import torch
from torch import Tensor

from conservator.errors import ConservatorError

LIMIT = 2**20  # the largest number of rows of an enumeration, which is meant for small models


def all_sequences(vocab_size: int, length: int) -> Tensor:
    """Return every sequence of V^L, in lexicographic order: (V^L, L)."""
    if vocab_size**length > LIMIT:
        raise ConservatorError(f"{vocab_size}^{length} sequences are too many to enumerate; the limit is {LIMIT}")
    return torch.cartesian_prod(*[torch.arange(vocab_size)] * length).reshape(-1, length)
