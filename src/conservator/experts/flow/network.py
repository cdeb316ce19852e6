"""The transformer of the public flow-matching text models: it reads tokens and the time, and predicts all tokens.

The names of the weights are those of the ``flow_matching`` examples and of FS-DFM, so that their state dicts fit; the
network itself is written anew, with torch's attention. The step size that FS-DFM's distilled students read besides the
time is not covered.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from conservator.experts.network import Table, rotate, rotation_of
from conservator.experts.source import MaskSource, Source, UniformSource

LAST = 1 - 1e-6  # of times, where a token proves itself beyond the doubt that float32 knows
FREQUENCIES = 256  # features of the time: half of them cosines, half sines
SOURCES: dict[str, Source] = {"mask": MaskSource(), "uniform": UniformSource()}


@dataclass(frozen=True)
class FlowConfig:
    """The size of a network, and the noise that it is made for.

    Attributes:
        tokens: V, the number of tokens without the mask.
        source: ``mask``: the network has one more token, the mask, whose id is V; ``uniform``: it has none.
        context: L, the longest window it is trained on, and the longest it reads.
        width: d, a multiple of ``2 * heads``.
        layers: the number of blocks.
        heads: attention heads of a block.
        conditioning: the width of what the blocks know of the time.
        dropout: the share of a block's outputs that training drops.
        reach: how many tokens on either side a layer before the blocks sees, which public models do not have: a small
            network knows within minutes by it what stands beside what; 0 for none.
        apart: with a uniform source: the logits of the network are of a token's cavity, its law apart from the token
            that is read in its place, and what that token says is multiplied in by the known channel; public models,
            which do not have this, have to learn to copy every token.
    """

    tokens: int
    source: str = "mask"
    context: int = 128
    width: int = 160
    layers: int = 4
    heads: int = 4
    conditioning: int = 64
    dropout: float = 0.0
    reach: int = 0
    apart: bool = False

    @property
    def mask(self) -> int | None:
        """The network's id of the mask, or None if it has none."""
        return self.tokens if self.source == "mask" else None

    @property
    def symbols(self) -> int:
        """How many ids the network reads, and how many its head has."""
        return self.tokens + (self.source == "mask")


class Scale(nn.Module):
    """Layer normalisation with a weight and no bias."""

    def __init__(self, width: int) -> None:
        """Start with the weight 1."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis of ``x``."""
        return functional.layer_norm(x.float(), self.weight.shape, self.weight.float())


class TimeEmbedding(nn.Module):
    """A perceptron of cosines and sines of the time."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, kappa: Tensor) -> Tensor:
        """Map times (B,) to (B, c)."""
        half = FREQUENCIES // 2
        angle = kappa[:, None].float() * 10000.0 ** (
            -torch.arange(half, device=kappa.device, dtype=torch.float32) / half
        )
        found: Tensor = self.mlp(torch.cat([angle.cos(), angle.sin()], dim=-1))
        return found


class Rotary(nn.Module):
    """The frequencies of the rotary positions, which public state dicts contain."""

    inv_freq: Tensor

    def __init__(self, size: int) -> None:
        """Compute 10000^(-2k/size)."""
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(size // 2, dtype=torch.float32) / (size // 2)))


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear map that starts at 0, so that an untrained network predicts exactly the uniform distribution."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Return x (1 + scale) + shift."""
    return x * (1 + scale) + shift


class FlowBlock(nn.Module):
    """Bidirectional attention with rotary positions, then a perceptron; the time shifts, scales and gates both."""

    def __init__(self, config: FlowConfig) -> None:
        """Make the block; it starts as the identity."""
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.norm1 = Scale(width)
        self.qw = nn.Linear(width, width, bias=False)
        self.kw = nn.Linear(width, width, bias=False)
        self.vw = nn.Linear(width, width, bias=False)
        self.attn_out = nn.Linear(width, width, bias=False)
        self.norm2 = Scale(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.adaLN_modulation = zero_linear(config.conditioning, 6 * width)

    @torch.no_grad()
    def open_gates(self) -> None:
        """Make what goes into the gates 0 instead of the gates, which are 1: the block is the identity as before."""
        for weight in (self.attn_out.weight, *self.mlp[2].parameters()):
            weight.zero_()
        self.adaLN_modulation.bias.view(6, -1)[[2, 5]] = 1.0

    def forward(self, x: Tensor, time: Tensor, rotation: tuple[Tensor, Tensor], allowed: Tensor | None) -> Tensor:
        """Map (B, L, d) to (B, L, d), given the ``time`` (B, c); ``allowed`` (B, 1, 1, L) may be attended to."""
        batch, length, width = x.shape
        steps = self.adaLN_modulation(time)[:, None].chunk(6, dim=2)
        y = modulate(self.norm1(x), steps[0], steps[1]).to(x.dtype)
        query, key, value = (
            layer(y).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.qw, self.kw, self.vw)
        )
        query, key = rotate(query, rotation).to(value.dtype), rotate(key, rotation).to(value.dtype)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        y = self.attn_out(mixed.transpose(1, 2).reshape(batch, length, width))
        x = x + steps[2] * functional.dropout(y, self.dropout, self.training)
        y = self.mlp(modulate(self.norm2(x), steps[3], steps[4]).to(x.dtype))
        found: Tensor = x + steps[5] * functional.dropout(y, self.dropout, self.training)
        return found


class FlowHead(nn.Module):
    """The last normalisation, which the time modulates, and the map to logits."""

    def __init__(self, config: FlowConfig) -> None:
        """Make the head; it starts at 0."""
        super().__init__()
        self.norm_final = Scale(config.width)
        self.linear = zero_linear(config.width, config.symbols)
        self.adaLN_modulation = zero_linear(config.conditioning, 2 * config.width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return what ``linear`` maps to logits: (B, L, d)."""
        shift, scale = self.adaLN_modulation(time)[:, None].chunk(2, dim=2)
        return modulate(self.norm_final(x), shift, scale).to(x.dtype)


class FlowNetwork(nn.Module):
    """tokens and time -> blocks -> logits of all tokens."""

    def __init__(self, config: FlowConfig) -> None:
        """Make the network; it starts at the uniform distribution."""
        super().__init__()
        self.config = config
        self.checkpointing = False  # whether training computes the blocks twice instead of keeping what is inside them
        self.vocab_embed = Table(config.symbols, config.width)
        self.time_embedding = TimeEmbedding(config.conditioning)
        self.rotary_emb = Rotary(config.width // config.heads)
        if config.reach:
            self.near = nn.Linear(2 * config.reach * config.width, config.width, bias=False)
        self.blocks = nn.ModuleList(FlowBlock(config) for _ in range(config.layers))
        self.output_layer = FlowHead(config)

    def forward(self, symbols: Tensor, kappa: Tensor, real: Tensor | None = None) -> Tensor:
        """Return logits (B, L, V) of the arguments of ``features``; the mask, if there is one, is no prediction."""
        return self.logits(self.features(symbols, kappa, real))

    def features(self, symbols: Tensor, kappa: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the features of each position: (B, L, d).

        Args:
            symbols: (B, L) tokens, or the mask's id.
            kappa: (B,) the time: 0 = noise, 1 = data.
            real: (B, L) False at the padding after the end of a row; None if there is none.
        """
        time = functional.silu(self.time_embedding(kappa))
        x = self.vocab_embed(symbols)
        if self.config.reach:
            x = x + self.near(neighbours(x if real is None else x * real[..., None], self.config.reach))
        allowed = None if real is None or bool(real.all()) else real[:, None, None]
        rotation = rotation_of(symbols.shape[1], self.config.width // self.config.heads, x.device)
        for block in self.blocks:
            arguments: tuple[Any, ...] = (x, time, rotation, allowed)
            twice = self.checkpointing and self.training
            x = checkpoint(block, *arguments, use_reentrant=False) if twice else block(*arguments)
        found: Tensor = self.output_layer(x, time)
        return found

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., V) of ``features`` (..., d)."""
        found: Tensor = self.output_layer.linear(features)
        return found[..., : self.config.tokens]

    def log_probs(self, features: Tensor, symbols: Tensor, kappa: Tensor) -> Tensor:
        """Return log p(v | what is read) (n, V) of ``features`` (n, d), ``symbols`` (n,) and times (n,); float32."""
        logits = self.logits(features).float()
        if self.config.apart:
            logits = logits.scatter_add(-1, symbols[:, None], self_evidence(kappa, self.config.tokens)[:, None])
        return torch.log_softmax(logits, dim=-1)


def self_evidence(kappa: Tensor, tokens: int) -> Tensor:
    """Log c(u | u) - log c(u | v) of the uniform source's channel: by how much a token speaks for itself, in nats."""
    kappa = kappa.float().clamp(max=LAST)
    return torch.log1p(kappa * tokens / (1 - kappa))


def neighbours(x: Tensor, reach: int) -> Tensor:
    """(B, L, 2 r d) what stands within ``reach`` of each position of ``x`` (B, L, d), without itself."""
    length = x.shape[1]
    padded = functional.pad(x, (0, 0, reach, reach))
    return torch.cat([padded[:, shift : shift + length] for shift in range(2 * reach + 1) if shift != reach], dim=-1)
