"""Cavity distributions: predictions of a uniform-source expert without the token that it read at the position."""

import torch
from torch import Tensor

from conservator.errors import ConservatorError


def cavity(log_probs: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """Return the distribution of a token given all others, from its distribution given all tokens.

        p(x_l = v | x_t without l)  is proportional to  p(x_l = v | x_t) / c(x_t,l | v)

    The channel c has two values, so one element of each row changes, and the rows are normalised again.

    Args:
        log_probs: (n, V) log p(x_l = v | x_t).
        tokens: (n,) x_t,l, the token that was read.
        kappa: (n,) the time, at least 0 and below 1; at kappa = 1 the cavity distribution is undefined.

    Returns:
        (n, V), in the precision of ``log_probs``.
    """
    if not ((kappa >= 0) & (kappa < 1)).all():
        raise ConservatorError("kappa must be at least 0 and below 1: the cavity distribution is undefined elsewhere")
    kappa = kappa.double()
    log_ratio = torch.log1p(kappa * log_probs.shape[-1] / (1 - kappa))  # log c(u | u) - log c(u | v)
    unnormalised = log_probs.scatter_add(-1, tokens[:, None], -log_ratio.to(log_probs.dtype)[:, None])
    return torch.log_softmax(unnormalised, dim=-1)
