"""The position-factorised expert of the simulator: its conditionals ignore the context."""

import torch
from torch import Tensor

from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.vocabularies import NumberedVocabulary


class CategoricalExpert:
    """Independent positions, q(x) = prod_l pi_l(x_l).

    Attributes:
        log_marginals: (L, V) log pi_l(v), normalised.
    """

    def __init__(self, logits: Tensor, name: str = "categorical") -> None:
        """Make the expert of per-position ``logits``: (L, V)."""
        self.log_marginals = torch.log_softmax(logits.to(torch.float64), dim=-1)
        length, vocab_size = self.log_marginals.shape
        self.spec = ExpertSpec(name, NumberedVocabulary(vocab_size), length)

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log pi_l at hidden positions, a copy of the token at visible ones: (n, V)."""
        check_context(self.spec, context)
        return copy_visible(self.log_marginals[at[1]], context, at)

    def log_density(self, tokens: Tensor) -> Tensor:
        """Return log q(x) = sum_l log pi_l(x_l): (B,) for ``tokens`` (B, L)."""
        check_context(self.spec, Context(tokens, torch.zeros_like(tokens, dtype=torch.bool)))
        rows = self.log_marginals[: tokens.shape[1]].expand(*tokens.shape, -1)
        return rows.gather(-1, tokens[..., None])[..., 0].sum(-1)


def sample_categorical(log_probs: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` sequences (count, L) with independent positions from ``log_probs`` (L, V)."""
    return torch.multinomial(log_probs.exp(), count, replacement=True, generator=generator).T.contiguous()
