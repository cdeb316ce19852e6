"""The position-factorised expert of the simulator: its conditionals ignore the context."""

import torch
from torch import Tensor

from conservator.experts.expert import ExpertSpec, copy_visible


class CategoricalExpert:
    """Independent positions, q(x) = prod_l pi_l(x_l).

    Attributes:
        table: (L, V) log pi_l(v), normalised.
    """

    def __init__(self, logits: Tensor, name: str = "categorical") -> None:
        """Make the expert of per-position ``logits``: (L, V)."""
        self.table = torch.log_softmax(logits.to(torch.float64), dim=-1)
        length, vocab_size = self.table.shape
        self.spec = ExpertSpec(name, vocab_size, length)

    def log_probs(self, tokens: Tensor, hidden: Tensor, kappa: float | Tensor = 0.0) -> Tensor:
        """Return log pi_l at hidden positions, a copy of the token at visible ones: (B, L, V)."""
        table = self.table[: tokens.shape[-1]].expand(*tokens.shape, -1)
        return copy_visible(table, tokens, hidden)

    def log_density(self, tokens: Tensor) -> Tensor:
        """Return log q(x) = sum_l log pi_l(x_l): (B,) for ``tokens`` (B, L)."""
        return self.table.expand(*tokens.shape, -1).gather(-1, tokens[..., None])[..., 0].sum(-1)


def sample_categorical(log_probs: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` sequences (count, L) with independent positions from ``log_probs`` (L, V)."""
    return torch.multinomial(log_probs.exp(), count, replacement=True, generator=generator).T.contiguous()
