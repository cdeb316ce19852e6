"""Chunked prediction of long windows, for methods that need whole windows, such as the paper's particles."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.experts import At, Context, Expert, ExpertSpec


@dataclass(frozen=True)
class ChunkedExpert:
    """An expert that processes sequences beyond its maximum length in independent chunks."""

    expert: Expert

    @property
    def spec(self) -> ExpertSpec:
        """Specification of the expert, without its maximum length."""
        return replace(self.expert.spec, max_length=None)

    def predict(self, context: Context, at: At) -> Tensor:
        """Predict each position from its chunk."""
        length, limit = context.tokens.shape[1], self.expert.spec.max_length
        if limit is None or length <= limit:
            return self.expert.predict(context, at)
        time = context.kappa if self.expert.spec.takes_time else None
        first = torch.zeros(len(context.tokens), dtype=torch.long) if context.start is None else context.start
        log_probs = torch.empty(len(at[0]), self.spec.vocabulary.size)
        for start in range(0, length, limit):
            inside = ((at[1] >= start) & (at[1] < start + limit)).nonzero()[:, 0]
            if len(inside):
                span = slice(start, start + limit)
                chunk = Context(context.tokens[:, span], context.hidden[:, span], time, first + start)
                log_probs[inside] = self.expert.predict(chunk, (at[0][inside], at[1][inside] - start)).float()
        return log_probs
