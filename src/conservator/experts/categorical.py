"""The position-factorised expert of the simulator: its conditionals ignore the context."""

import torch
from torch import Tensor

from conservator.experts.expert import ExpertSpec, check_batch, copy_visible


class CategoricalExpert:
    """Independent positions, q(x) = prod_l pi_l(x_l).

    Attributes:
        log_marginals: (L, V) log pi_l(v), normalised.
    """

    def __init__(self, logits: Tensor, name: str = "categorical") -> None:
        """Make the expert of per-position ``logits``: (L, V)."""
        self.log_marginals = torch.log_softmax(logits.to(torch.float64), dim=-1)
        length, vocab_size = self.log_marginals.shape
        self.spec = ExpertSpec(name, vocab_size, length)

    def log_probs(self, tokens: Tensor, hidden: Tensor, kappa: float | Tensor = 0.0) -> Tensor:
        """Return log pi_l at hidden positions, a copy of the token at visible ones: (B, L, V)."""
        return copy_visible(self._rows(tokens), tokens, hidden)

    def log_density(self, tokens: Tensor) -> Tensor:
        """Return log q(x) = sum_l log pi_l(x_l): (B,) for ``tokens`` (B, L)."""
        return self._rows(tokens).gather(-1, tokens[..., None])[..., 0].sum(-1)

    def _rows(self, tokens: Tensor) -> Tensor:
        """The marginals at the positions of ``tokens`` (B, L): (B, L, V)."""
        check_batch(self.spec, tokens)
        return self.log_marginals[: tokens.shape[1]].expand(*tokens.shape, -1)


def sample_categorical(log_probs: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` sequences (count, L) with independent positions from ``log_probs`` (L, V)."""
    return torch.multinomial(log_probs.exp(), count, replacement=True, generator=generator).T.contiguous()
