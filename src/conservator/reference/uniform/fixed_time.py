"""A uniform-source expert evaluated at a fixed time kappa."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.experts.expert import At, Context, Expert, ExpertSpec
from conservator.experts.source import MaskSource


@dataclass(frozen=True)
class FixedTimeExpert:
    """The predictions of a uniform-source expert for a state at a fixed time kappa, as decoders use them.

    A team evaluates it without hidden positions.

    Attributes:
        expert: with a uniform source.
        kappa: the time.
    """

    expert: Expert
    kappa: float

    @property
    def spec(self) -> ExpertSpec:
        """The specification of the expert, with a mask source."""
        return replace(self.expert.spec, source=MaskSource())

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | x_t) at the positions ``at``: (n, V)."""
        time = torch.full((len(context.tokens),), self.kappa, dtype=torch.float64)
        return self.expert.predict(Context(context.tokens, context.hidden, time, context.start), at)
