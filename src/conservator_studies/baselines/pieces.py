"""Long windows for methods that read a whole window at once, such as the paper's particles."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.experts import At, Context, Expert, ExpertSpec


@dataclass(frozen=True)
class InPieces:
    """An expert that reads a sequence which is too long for it in pieces, each for itself."""

    expert: Expert

    @property
    def spec(self) -> ExpertSpec:
        """That of the expert, without its limit."""
        return replace(self.expert.spec, max_length=None)

    def predict(self, context: Context, at: At) -> Tensor:
        """What the expert predicts of each position from the piece that it stands in."""
        length, limit = context.tokens.shape[1], self.expert.spec.max_length
        if limit is None or length <= limit:
            return self.expert.predict(context, at)
        time = context.kappa if self.expert.spec.takes_time else None
        first = torch.zeros(len(context.tokens), dtype=torch.long) if context.start is None else context.start
        found = torch.empty(len(at[0]), self.spec.vocabulary.size)
        for start in range(0, length, limit):
            inside = ((at[1] >= start) & (at[1] < start + limit)).nonzero()[:, 0]
            if len(inside):
                part = slice(start, start + limit)
                piece = Context(context.tokens[:, part], context.hidden[:, part], time, first + start)
                found[inside] = self.expert.predict(piece, (at[0][inside], at[1][inside] - start)).float()
        return found
