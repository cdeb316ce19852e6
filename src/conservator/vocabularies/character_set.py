"""The constraint that every lost token is one of some of the vocabulary's tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.vocabularies.utf8 import Candidates

ANYWHERE = 1  # the only state, as a bit set: what may stand at a place does not depend on its neighbours


@dataclass(frozen=True)
class Repertoire:
    """Lost tokens are independent, and each is among the ``allowed`` ones (V,); predictions are renormalised to these.

    Visible tokens may be any.
    """

    allowed: NDArray[np.bool_]

    def reduce(self, log_probs: Tensor) -> Candidates:
        """Reduce predictions (n, V) to the best of the allowed tokens."""
        inside = log_probs.masked_fill(~torch.from_numpy(self.allowed), -torch.inf).double()
        best = inside.max(dim=1, keepdim=True)
        total = inside.logsumexp(dim=1, keepdim=True)
        return Candidates(best.values.numpy(), best.indices.numpy(), total.numpy())

    def unread(self, tokens: NDArray[Any]) -> Candidates:
        """Candidates for n tokens before they are predicted: ``tokens`` (n,), or the first allowed one where lost."""
        token = np.where(tokens < len(self.allowed), tokens, np.argmax(self.allowed)).astype(np.int64)[:, None]
        return Candidates(np.zeros(token.shape), token, np.zeros(token.shape))

    def best(self, tokens: NDArray[Any], candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The most likely allowed token at each lost position, and its probability among the allowed ones."""
        return candidates.byte[:, 0], np.exp(candidates.value - candidates.total)[:, 0]

    def violations(self, tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """No visible token is against it."""
        return np.zeros(len(tokens), dtype=np.bool_)

    def reachable(self, tokens: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The only state, before and after every place."""
        states = np.full(len(tokens) + 1, ANYWHERE, dtype=np.int64)
        return states, states

    def step(self, states: int) -> NDArray[np.int64]:
        """The same state after an allowed token, none after any other."""
        return np.where(self.allowed, states, 0)

    def seal(self, tokens: NDArray[Any], cuts: NDArray[np.int64]) -> NDArray[Any]:
        """Every excerpt is allowed alone."""
        return tokens
