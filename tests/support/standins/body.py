"""A tiny bidirectional network with time input, for networks that are code in their folder."""

import torch
from torch import nn


class Body(nn.Module):
    def __init__(self, rows, width, positions):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(rows, width), nn.Embedding(positions, width)
        self.mix, self.heads = nn.Linear(width, 3 * width), 2
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm, self.time = nn.LayerNorm(width), nn.Linear(1, width)

    def forward(self, ids, time=None):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        if time is not None:
            x = x + self.time(time[:, None].to(x.dtype))[:, None]
        parts = self.mix(x).unflatten(-1, (3 * self.heads, -1)).transpose(1, 2).chunk(3, dim=1)
        x = x + nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        return self.norm(x + self.narrow(self.wide(x).relu()))
