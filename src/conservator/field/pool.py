"""The log-linear pool, equation (pool)."""

import torch
from torch import Tensor


def log_pool(log_probs: Tensor, field: Tensor) -> Tensor:
    """Compose experts position by position.

        log pi_lambda(v) = sum_i lambda_{l,i} log pi_{i,l}(v) - log Z_l

    Args:
        log_probs: (m, ..., L, V) log-probabilities of the experts, finite.
        field: (L, m) or (..., L, m), rows on the simplex.

    Returns:
        (..., L, V) normalised log-probabilities, in the type of ``log_probs``.
    """
    composed = torch.einsum("i...lv,...li->...lv", log_probs, field.to(log_probs.dtype))
    return torch.log_softmax(composed, dim=-1)


def log_pool_at(log_probs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compose experts with the same weight at all positions.

    If a single expert has non-zero weight, its predictions are returned unchanged.

    Args:
        log_probs: (m, n, V).
        weight: (m,) on the simplex.

    Returns:
        (n, V) the normalised pool, and (n,) the logarithm of its normaliser Z.
    """
    used = weight.nonzero()[:, 0].tolist()
    if len(used) == 1:
        return log_probs[used[0]], torch.zeros(())
    mixed = torch.einsum("i,inv->nv", weight[used].to(log_probs.dtype), log_probs[used])
    log_norm = torch.logsumexp(mixed, dim=-1)
    return mixed.sub_(log_norm[:, None]), log_norm
