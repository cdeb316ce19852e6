"""Muon: momentum with orthogonalised updates (Jordan et al. 2024), in float32."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def orthogonalise(matrix: Tensor, steps: int = 5) -> Tensor:
    """Bring the singular values of ``matrix`` near 1 by the quintic Newton-Schulz iteration.

        X <- P X,   P = a I + b A + c A^2,   A = X X'

    The published coefficients trade exactness (singular values end within about 0.7 to 1.2) for speed. Every P is a
    polynomial in the first A and commutes with it, so the iteration runs on A <- P A P, which is smaller than X, and
    only two products with X are needed.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    gram = x @ x.T
    product = torch.eye(len(x), device=x.device)
    for step in range(steps):
        polynomial = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        polynomial.diagonal().add_(3.4445)
        product = polynomial @ product
        if step < steps - 1:
            gram = polynomial @ gram @ polynomial
    result: Tensor = product @ x
    return result.T if tall else result


class Muon(torch.optim.Optimizer):
    """Muon for matrices. ``torch.optim.Muon`` orthogonalises in bfloat16, which most CPUs emulate."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        """Configure the optimiser for the matrices ``params``."""
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix; ``closure`` is ignored."""
        for group in self.param_groups:
            for parameter in group["params"]:
                state: dict[str, Any] = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                lookahead = parameter.grad.lerp(state["momentum"], group["momentum"])
                rows, columns = parameter.shape
                scale = max(1, rows / columns) ** 0.5
                parameter.add_(orthogonalise(lookahead), alpha=-group["lr"] * scale)
