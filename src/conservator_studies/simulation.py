"""Categorical experts and a known field with exact posteriors (appendix "Data and corruption")."""

import torch
from torch import Tensor

from conservator.reference import CategoricalExpert


def draw_experts(
    vocab_size: int, length: int, gap: float, generator: torch.Generator
) -> tuple[CategoricalExpert, CategoricalExpert]:
    """Draw two position-factorised experts with logits of +-``gap``.

    At every position the vocabulary is split at random into three parts of equal size: tokens that the first expert
    prefers (logits +gap and -gap), tokens that the second expert prefers (-gap and +gap), and neutral tokens (0 and 0).
    The experts mirror each other, so their pool with equal weights is uniform, and equal weights copy the observation.

    The paper does not give its construction. Of the constructions in docs/LOG.md, only this one reproduces its
    divergence (4.56 nats at V = 12 and gap 2.5) and, within 0.001, its three accuracies (0.652, 0.634, 0.382).
    """
    part = vocab_size // 3
    ranks = torch.rand(length, vocab_size, generator=generator).argsort(dim=1)
    logits = gap * ((ranks < part).double() - ((ranks >= part) & (ranks < 2 * part)).double())
    return CategoricalExpert(logits, "expert 1"), CategoricalExpert(-logits, "expert 2")


def true_field(length: int) -> Tensor:
    """Field (L, 2): one third routed to the first expert, one third to the second, one third fused."""
    third = length // 3
    field = torch.full((length, 2), 0.5, dtype=torch.float64)
    field[:third] = torch.tensor([1.0, 0.0], dtype=torch.float64)
    field[third : 2 * third] = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return field


def divergence(first: CategoricalExpert, second: CategoricalExpert) -> float:
    """KL(first | second) in nats, averaged over positions."""
    p = first.log_marginals.exp()
    return float((p * (first.log_marginals - second.log_marginals)).sum(-1).mean())


def field_error(field: Tensor, truth: Tensor) -> float:
    """Mean absolute error of the field (section "Metrics")."""
    return float((field - truth).abs().mean())
