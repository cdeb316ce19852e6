"""Experts for tests that answer in microseconds."""

import torch

from conservator.experts import Context, ExpertSpec, copy_visible
from conservator.vocabularies import BYTES


class FakeExpert:
    """Predicts a hidden byte from the nearest visible one before it, by a table; reads at most ``context`` bytes.

    Attributes:
        read: how many positions it has read.
        evaluations: how many sequences it has read.
    """

    def __init__(self, seed=0, context=40, name=None, sharpness=3.0):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.log_softmax(sharpness * torch.randn(257, 256, generator=generator), dim=-1)
        self.spec = ExpertSpec(name or f"fake{seed}", BYTES, context)
        self.read = self.evaluations = 0

    def count(self, context):
        self.read += context.tokens.numel()
        self.evaluations += len(context.tokens)

    def predict(self, context, at):
        self.count(context)
        tokens, hidden = context.tokens, context.hidden | ~context.real
        place = torch.arange(tokens.shape[1]).expand_as(tokens)
        last = torch.where(hidden, -1, place).cummax(dim=1).values
        before = torch.where(last < 0, 256, tokens.gather(1, last.clamp_min(0)))
        return copy_visible(self.table[before[at]], Context(tokens, hidden), at)


class ChainExpert(FakeExpert):
    """After a byte comes the next one of the alphabet, less surely where that byte itself is hidden."""

    def __init__(self):
        super().__init__(name="chain")
        self.seen = []

    def predict(self, context, at):
        self.count(context)
        tokens, hidden = context.tokens, context.hidden
        self.seen.append(tuple(None if gone else int(one) for one, gone in zip(tokens[0], hidden[0], strict=True)))
        scores = torch.zeros(len(at[0]), 256)
        for number, (row, place) in enumerate(zip(at[0].tolist(), at[1].tolist(), strict=True)):
            if place and hidden[row, place] and not hidden[row, place - 1]:
                scores[number, (int(tokens[row, place - 1]) + 1) % 256] = 6.0
        return copy_visible(torch.log_softmax(scores, dim=-1), context, at)


class TextExpert(FakeExpert):
    """Knows a text by heart: it finds the place that most of what is visible agrees with, and continues from there."""

    def __init__(self, text, context=64, name="text"):
        super().__init__(0, context, name)
        self.text = torch.tensor(list(text.encode()))

    def predict(self, context, at):
        self.count(context)
        tokens = context.tokens
        length = tokens.shape[1]
        filler = torch.full((length,), -2)
        places = torch.cat([filler, self.text, filler]).unfold(0, length, 1)  # every alignment of the text
        visible = ~context.hidden & context.real
        agree = ((tokens[:, None] == places) & visible[:, None]).sum(-1)
        said = places[agree.argmax(-1)][at]
        scores = torch.nn.functional.one_hot(said.clamp_min(0), 256) * 8.0 * (said >= 0)[:, None]
        return copy_visible(torch.log_softmax(scores, dim=-1), context, at)
