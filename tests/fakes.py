"""Experts for tests that answer in microseconds."""

import torch

from conservator.experts.expert import ExpertSpec, copy_visible


class FakeExpert:
    """Predicts a hidden byte from the nearest visible one before it, by a table; reads at most ``context`` bytes."""

    def __init__(self, seed=0, context=40, name=None, sharpness=3.0):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.log_softmax(sharpness * torch.randn(257, 256, generator=generator), dim=-1)
        self.spec = ExpertSpec(name or f"fake{seed}", 256, context)
        self.read = 0

    def log_probs(self, tokens, hidden, kappa=0.0):
        self.read += tokens.numel()
        hidden = hidden | (tokens < 0)
        place = torch.arange(tokens.shape[1]).expand_as(tokens)
        last = torch.where(hidden, -1, place).cummax(dim=1).values
        before = torch.where(last < 0, 256, tokens.gather(1, last.clamp_min(0)))
        return copy_visible(self.table[before], tokens, hidden)


class ChainExpert(FakeExpert):
    """After a byte comes the next one of the alphabet, less surely where that byte itself is hidden."""

    def __init__(self):
        super().__init__(name="chain")
        self.seen = []

    def log_probs(self, tokens, hidden, kappa=0.0):
        self.seen.append(tuple(None if gone else int(one) for one, gone in zip(tokens[0], hidden[0], strict=True)))
        scores = torch.zeros(*tokens.shape, 256)
        for row, place in hidden.nonzero().tolist():
            if place and not hidden[row, place - 1]:
                scores[row, place, (int(tokens[row, place - 1]) + 1) % 256] = 6.0
        return copy_visible(torch.log_softmax(scores, dim=-1), tokens, hidden)


class TextExpert(FakeExpert):
    """Knows a text by heart: it finds the place that most of what is visible agrees with, and continues from there."""

    def __init__(self, text, context=64, name="text"):
        super().__init__(0, context, name)
        self.text = torch.tensor(list(text.encode()))

    def log_probs(self, tokens, hidden, kappa=0.0):
        self.read += tokens.numel()
        length = tokens.shape[1]
        filler = torch.full((length,), -2)
        places = torch.cat([filler, self.text, filler]).unfold(0, length, 1)  # every alignment of the text
        visible = ~hidden & (tokens >= 0)
        agree = ((tokens[:, None] == places) & visible[:, None]).sum(-1)
        said = places[agree.argmax(-1)]
        scores = torch.nn.functional.one_hot(said.clamp_min(0), 256) * 8.0 * (said >= 0)[..., None]
        return copy_visible(torch.log_softmax(scores, dim=-1), tokens, hidden)
