"""Cavities: what a uniform-source expert predicts of a token without having read what stands in its place."""

import torch
from torch import Tensor

from conservator.errors import ConservatorError


def cavity(log_probs: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """The law of a token given all others, from its law given all tokens.

        p(x_l = v | x_t without l)  is proportional to  p(x_l = v | x_t) / c(x_t,l | v)

    The channel c has two values, so that one number of each row changes, and the rows are normalised again.

    Args:
        log_probs: (n, V) log p(x_l = v | x_t).
        tokens: (n,) x_t,l, the token that stands there.
        kappa: (n,) the time, at least 0 and below 1: at 1 the token is its own proof, and nothing is left without it.

    Returns:
        (n, V), in the precision of ``log_probs``.
    """
    if not ((kappa >= 0) & (kappa < 1)).all():
        raise ConservatorError("kappa must be at least 0 and below 1 where a token is to be predicted from the others")
    kappa = kappa.double()
    excess = torch.log1p(kappa * log_probs.shape[-1] / (1 - kappa))  # log c(u | u) - log c(u | v)
    apart = log_probs.scatter_add(-1, tokens[:, None], -excess.to(log_probs.dtype)[:, None])
    return torch.log_softmax(apart, dim=-1)
