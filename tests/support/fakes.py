"""Experts for tests that predict in microseconds."""

import torch

from conservator.experts import Context, ExpertSpec, copy_visible
from conservator.vocabularies import BYTES


class FakeExpert:
    """Predicts a hidden byte from the last visible byte before it, by a table; reads at most ``context`` bytes.

    Attributes:
        read: number of positions read.
        evaluations: number of sequences read.
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
        position = torch.arange(tokens.shape[1]).expand_as(tokens)
        last = torch.where(hidden, -1, position).cummax(dim=1).values
        before = torch.where(last < 0, 256, tokens.gather(1, last.clamp_min(0)))
        return copy_visible(self.table[before[at]], Context(tokens, hidden), at)


class ChainExpert(FakeExpert):
    """Predicts the successor of the byte before, and the uniform distribution if that byte is hidden."""

    def __init__(self):
        super().__init__(name="chain")
        self.seen = []

    def predict(self, context, at):
        self.count(context)
        tokens, hidden = context.tokens, context.hidden
        self.seen.append(
            tuple(None if masked else int(token) for token, masked in zip(tokens[0], hidden[0], strict=True))
        )
        scores = torch.zeros(len(at[0]), 256)
        for index, (row, position) in enumerate(zip(at[0].tolist(), at[1].tolist(), strict=True)):
            if position and hidden[row, position] and not hidden[row, position - 1]:
                scores[index, (int(tokens[row, position - 1]) + 1) % 256] = 6.0
        return copy_visible(torch.log_softmax(scores, dim=-1), context, at)


class TextExpert(FakeExpert):
    """Predicts one memorized text, at the alignment that matches most visible bytes."""

    def __init__(self, text, context=64, name="text"):
        super().__init__(0, context, name)
        self.text = torch.tensor(list(text.encode()))

    def predict(self, context, at):
        self.count(context)
        tokens = context.tokens
        length = tokens.shape[1]
        filler = torch.full((length,), -2)
        alignments = torch.cat([filler, self.text, filler]).unfold(0, length, 1)
        visible = ~context.hidden & context.real
        matches = ((tokens[:, None] == alignments) & visible[:, None]).sum(-1)
        predicted = alignments[matches.argmax(-1)][at]
        scores = torch.nn.functional.one_hot(predicted.clamp_min(0), 256) * 8.0 * (predicted >= 0)[:, None]
        return copy_visible(torch.log_softmax(scores, dim=-1), context, at)
