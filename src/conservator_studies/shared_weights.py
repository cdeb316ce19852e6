"""Weights of several language models in one text: local ones, and those that are the same at every byte."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.experts import Meter
from conservator.experts.causal import CausalExpert, byte_conditionals
from conservator.field import constant, infer_causal_field, simplex_grid
from conservator.pipelines.rescoring import Rescorer
from conservator_studies.baselines.constant import GRID, TEMPERATURE
from conservator_studies.drafts import Draft

STEPS = 10  # of the lattice from one model to another
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weighted(Rescorer):
    """A rewriter whose language models have given weights.

    Attributes:
        given: (L, m).
    """

    given: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def weights(self, text: bytes, visible: NDArray[np.bool_], meter: Meter | None = None) -> Floats:
        """Those that were given."""
        return self.given


@dataclass(frozen=True)
class CausalEvidence:
    """What m language models say of the bytes of a text.

    Attributes:
        laws: of each (L, 256), log q(byte | bytes before it).
        tokens: (L,) the text.
        visible: (L,) which bytes are known.
        seconds: of the processor.
    """

    laws: Sequence[Tensor]
    tokens: NDArray[np.int64]
    visible: NDArray[np.bool_]
    seconds: float

    def weights(self) -> dict[str, Floats]:
        """(L, m) by method."""
        count = len(self.laws)
        one = [constant(np.asarray(simplex_grid(count, STEPS)))]
        local = infer_causal_field(self.laws, self.tokens, self.visible)
        shared = infer_causal_field(self.laws, self.tokens, self.visible, priors=one)
        same = {
            "equal": np.full(count, 1 / count),
            "packllm_sim": self.packllm_sim(),
            "packllm_opt": self.packllm_opt(),
        }
        return {
            "local": local.field,
            "global": shared.field,
            **{name: np.tile(weights, (len(self.tokens), 1)) for name, weights in same.items()},
        }

    def packllm_sim(self) -> Floats:
        """PackLLM, softmax variant: weights proportional to exp(-mean loss of visible bytes / T)."""
        losses = torch.tensor([self.loss(corner) for corner in np.eye(len(self.laws))], dtype=torch.float64)
        found: Floats = torch.softmax(-losses / TEMPERATURE, dim=0).numpy()
        return found

    def packllm_opt(self) -> Floats:
        """PackLLM, greedy variant: the models one by one, the best first, each with a weight by line search."""
        corners = np.eye(len(self.laws))
        order = np.argsort([self.loss(corner) for corner in corners], kind="stable")
        weights: Floats = corners[order[0]]
        for newcomer in corners[order[1:]]:
            mixtures = [(1 - share) * weights + share * newcomer for share in GRID.tolist()]
            losses = [self.loss(mixture) for mixture in mixtures]
            weights = mixtures[max(number for number, loss in enumerate(losses) if loss == min(losses))]
        return weights

    def loss(self, weights: Floats) -> float:
        """The mean loss of visible bytes by the pool with these weights (m,)."""
        pool = sum(float(share) * law.double() for share, law in zip(weights, self.laws, strict=True))
        picked = torch.log_softmax(torch.as_tensor(pool), dim=1).gather(1, torch.from_numpy(self.tokens)[:, None])[:, 0]
        return -float(picked.numpy()[self.visible].mean())


def evidence_of(models: Sequence[CausalExpert], draft: Draft) -> CausalEvidence:
    """What language models say of a draft."""
    start, text = time.process_time(), draft.text
    laws = [byte_conditionals(one, text) for one in models]
    tokens = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    return CausalEvidence(laws, tokens, draft.visible, time.process_time() - start)
