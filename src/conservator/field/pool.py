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
