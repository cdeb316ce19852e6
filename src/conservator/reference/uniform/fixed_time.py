"""A uniform-source expert evaluated at a fixed time kappa."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.experts.expert import At, Context, Expert, ExpertSpec
from conservator.experts.source import MaskSource


@dataclass(frozen=True)
class FixedTimeExpert:
    """What a uniform-source expert predicts of a state at time kappa, noise or not: the law of decoders.

    A team reads it with nothing hidden.

    Attributes:
        expert: with a uniform source.
        kappa: the time.
    """

    expert: Expert
    kappa: float

    @property
    def spec(self) -> ExpertSpec:
        """That of the expert, but with a mask source."""
        return replace(self.expert.spec, source=MaskSource())

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | x_t) at the positions ``at``: (n, V)."""
        time = torch.full((len(context.tokens),), self.kappa, dtype=torch.float64)
        return self.expert.predict(Context(context.tokens, context.hidden, time, context.start), at)
