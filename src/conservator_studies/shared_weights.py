"""Weights of several language models in one text: local weights, and weights that are the same at every byte."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert, byte_conditionals
from conservator.field import constant, infer_causal_field, simplex_grid
from conservator.pipelines.rescoring import Rescorer
from conservator_studies.baselines.constant import TEMPERATURE, greedy_weights
from conservator_studies.drafts import Draft

GRID_RESOLUTION = 10  # parts: resolution of the weight grid [untuned]


@dataclass(frozen=True)
class FixedWeightRescorer(Rescorer):
    """A rescorer with fixed weights of the language models.

    Attributes:
        given: (L, m) weights.
    """

    given: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def weights(self, text: bytes, visible: NDArray[np.bool_], meter: Meter | None = None) -> Floats:
        """Return the fixed weights."""
        return self.given


@dataclass(frozen=True)
class CausalEvidence:
    """Byte conditionals of m language models for a text.

    Attributes:
        log_probs: for each model (L, 256) log q(byte | previous bytes).
        tokens: (L,) text.
        visible: (L,) True for known bytes.
        seconds: processor time.
    """

    log_probs: Sequence[Tensor]
    tokens: NDArray[np.int64]
    visible: NDArray[np.bool_]
    seconds: float

    def weights(self) -> dict[str, Floats]:
        """Weights (L, m) by method."""
        count = len(self.log_probs)
        global_prior = [constant(np.asarray(simplex_grid(count, GRID_RESOLUTION)))]
        local_field = infer_causal_field(self.log_probs, self.tokens, self.visible)
        global_field = infer_causal_field(self.log_probs, self.tokens, self.visible, priors=global_prior)
        constant_weights = {
            "equal": np.full(count, 1 / count),
            "packllm_sim": self.packllm_sim(),
            "packllm_opt": self.packllm_opt(),
        }
        return {
            "local": local_field.field,
            "global": global_field.field,
            **{name: np.tile(weights, (len(self.tokens), 1)) for name, weights in constant_weights.items()},
        }

    def packllm_sim(self) -> Floats:
        """PackLLM, softmax variant: weights proportional to exp(-mean loss of visible bytes / T)."""
        weights: Floats = torch.softmax(-self.model_losses / TEMPERATURE, dim=0).numpy()
        return weights

    def packllm_opt(self) -> Floats:
        """PackLLM, greedy variant: add the models in order of loss, each with a weight from a line search."""
        order = self.model_losses.argsort(stable=True)[None]
        weights: Floats = greedy_weights(order, self.losses)[0].numpy()
        return weights

    @cached_property
    def model_losses(self) -> Tensor:
        """Mean loss (m,) of visible bytes for each model."""
        return self.losses(torch.eye(len(self.log_probs), dtype=torch.float64))

    def losses(self, weights: Tensor) -> Tensor:
        """Mean loss (k,) of visible bytes under the pools with ``weights`` (k, m)."""
        return torch.tensor([self.loss(row) for row in weights.tolist()], dtype=torch.float64)

    def loss(self, weights: Sequence[float]) -> float:
        """Mean loss of visible bytes under the pool with ``weights`` (m,)."""
        pool = sum(weight * log_probs.double() for weight, log_probs in zip(weights, self.log_probs, strict=True))
        true_tokens = torch.from_numpy(self.tokens)[:, None]
        log_probs = torch.log_softmax(torch.as_tensor(pool), dim=1).gather(1, true_tokens)[:, 0]
        return -float(log_probs.numpy()[self.visible].mean())


def compute_evidence(models: Sequence[CausalExpert], draft: Draft) -> CausalEvidence:
    """Compute the byte conditionals of language models for a draft."""
    start, text = time.process_time(), draft.text
    log_probs = [byte_conditionals(model, text) for model in models]
    tokens = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    return CausalEvidence(log_probs, tokens, draft.visible, time.process_time() - start)
