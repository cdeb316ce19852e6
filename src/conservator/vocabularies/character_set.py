"""The constraint that every lost token is in a given set of tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.vocabularies.utf8 import Candidates

ONLY_STATE = 1  # bit set: the only state, because the allowed tokens do not depend on neighbours [definition]


@dataclass(frozen=True)
class AllowedTokens:
    """Lost tokens are independent and in the set ``allowed`` (V,). Predictions are renormalised to this set.

    Visible tokens are unconstrained.
    """

    allowed: NDArray[np.bool_]

    def make_candidates(self, log_probs: Tensor) -> Candidates:
        """Reduce predictions (n, V) to the best allowed token."""
        allowed = log_probs.masked_fill(~torch.from_numpy(self.allowed), -torch.inf).double()
        best = allowed.max(dim=1, keepdim=True)
        total = allowed.logsumexp(dim=1, keepdim=True)
        return Candidates(best.values.numpy(), best.indices.numpy(), total.numpy())

    def initial_candidates(self, tokens: NDArray[Any]) -> Candidates:
        """Return candidates for n tokens without predictions: ``tokens`` (n,), or the first allowed token if lost."""
        token = np.where(tokens < len(self.allowed), tokens, np.argmax(self.allowed)).astype(np.int64)[:, None]
        return Candidates(np.zeros(token.shape), token, np.zeros(token.shape))

    def best(self, tokens: NDArray[Any], candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the most likely allowed token at each lost position, and its probability among the allowed tokens."""
        return candidates.token[:, 0], np.exp(candidates.log_prob - candidates.total)[:, 0]

    def violations(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Return (L,) False everywhere: any visible token is allowed."""
        return np.zeros(len(tokens), dtype=np.bool_)

    def reachable(self, tokens: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the only state at every boundary."""
        states = np.full(len(tokens) + 1, ONLY_STATE, dtype=np.int64)
        return states, states

    def next_states(self, states: int) -> NDArray[np.int64]:
        """Return (V,) the same states after an allowed token, and the empty set after any other."""
        return np.where(self.allowed, states, 0)

    def close_at_cuts(self, tokens: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[Any]:
        """Return ``tokens``: every excerpt is allowed."""
        return tokens
