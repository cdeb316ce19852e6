"""The transformer of the public flow-matching text models: from tokens and time to logits of all tokens.

The names of the weights are those of the ``flow_matching`` examples and of FS-DFM, so that their state dicts can be
loaded; the implementation is new and uses torch's attention. The step-size input of FS-DFM's distilled students is not
supported.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from conservator.experts.network import Embedding, rotate, rotation_of
from conservator.experts.source import MaskSource, Source, UniformSource

MAX_KAPPA = 1 - 1e-6  # kappa: upper clamp, because log1p(kappa V / (1 - kappa)) overflows at 1 [numerical]
TIME_FEATURES = 256  # features: of the time, half of them cosines, half sines [definition]
SOURCES: dict[str, Source] = {"mask": MaskSource(), "uniform": UniformSource()}


@dataclass(frozen=True)
class FlowConfig:
    """The sizes and the source of a network. ``config.json`` stores them under these names.

    Attributes:
        tokens: V, the number of tokens without the mask.
        source: ``mask``: the network has one more token, the mask, with id V; ``uniform``: it has none.
        context: L, maximum window length in tokens.
        width: d, a multiple of ``2 * heads``.
        layers: number of blocks.
        heads: attention heads per block.
        conditioning: width of the time embedding.
        dropout: dropout probability of the outputs of a block.
        reach: r, radius in tokens of a local context layer before the blocks, which speeds up the training of small
            networks; 0 for none. Public models have none.
        apart: with a uniform source, whether the logits are those of the cavity distribution, to which the known
            log-likelihood of the observed token is added. Public models have logits of the posterior, and must learn
            to copy tokens.
    """

    tokens: int
    source: str = "mask"
    context: int = 128  # tokens: maximum window length [untuned]
    width: int = 160  # features: of the transformer [untuned]
    layers: int = 4  # blocks: depth of the transformer [untuned]
    heads: int = 4  # heads: per block [untuned]
    conditioning: int = 64  # features: of the time embedding [untuned]
    dropout: float = 0.0  # probability: of dropping an output [untuned]
    reach: int = 0  # tokens: on either side [definition]
    apart: bool = False

    @property
    def mask(self) -> int | None:
        """The token id of the mask; None for a uniform source."""
        return self.tokens if self.source == "mask" else None

    @property
    def symbols(self) -> int:
        """The number of token ids, with the mask."""
        return self.tokens + (self.source == "mask")


class LayerNorm(nn.Module):
    """Layer normalisation with a weight and no bias."""

    def __init__(self, width: int) -> None:
        """Initialise the weight to 1."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis of ``x``."""
        return functional.layer_norm(x.float(), self.weight.shape, self.weight.float())


class TimeEmbedding(nn.Module):
    """A multilayer perceptron of cosines and sines of the time."""

    def __init__(self, width: int) -> None:
        """Initialise the layers."""
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(TIME_FEATURES, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, kappa: Tensor) -> Tensor:
        """Map times (B,) to (B, c)."""
        half = TIME_FEATURES // 2
        angle = kappa[:, None].float() * 10000.0 ** (
            -torch.arange(half, device=kappa.device, dtype=torch.float32) / half
        )
        embedding: Tensor = self.mlp(torch.cat([angle.cos(), angle.sin()], dim=-1))
        return embedding


class RotaryFrequencies(nn.Module):
    """The frequencies of the rotary embedding, which public state dicts contain."""

    inv_freq: Tensor

    def __init__(self, size: int) -> None:
        """Compute 10000^(-2k/size)."""
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(size // 2, dtype=torch.float32) / (size // 2)))


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer initialised to 0, so that an untrained network predicts exactly the uniform distribution."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Return x (1 + scale) + shift."""
    return x * (1 + scale) + shift


class FlowBlock(nn.Module):
    """Bidirectional attention with rotary positions, then a perceptron; the time modulates and gates both (adaLN)."""

    def __init__(self, config: FlowConfig) -> None:
        """Initialise the block to the identity."""
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.norm1 = LayerNorm(width)
        self.qw = nn.Linear(width, width, bias=False)
        self.kw = nn.Linear(width, width, bias=False)
        self.vw = nn.Linear(width, width, bias=False)
        self.attn_out = nn.Linear(width, width, bias=False)
        self.norm2 = LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.adaLN_modulation = zero_linear(config.conditioning, 6 * width)

    @torch.no_grad()
    def open_gates(self) -> None:
        """Initialise the gates to 1 and the inputs of the gates to 0, so that the block is still the identity."""
        for weight in (self.attn_out.weight, *self.mlp[2].parameters()):
            weight.zero_()
        self.adaLN_modulation.bias.view(6, -1)[[2, 5]] = 1.0

    def forward(self, x: Tensor, time: Tensor, rotation: tuple[Tensor, Tensor], allowed: Tensor | None) -> Tensor:
        """Map (B, L, d) to (B, L, d), given the ``time`` (B, c); ``allowed`` (B, 1, 1, L) is the attention mask."""
        batch, length, width = x.shape
        modulation = self.adaLN_modulation(time)[:, None].chunk(6, dim=2)
        y = modulate(self.norm1(x), modulation[0], modulation[1]).to(x.dtype)
        query, key, value = (
            layer(y).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.qw, self.kw, self.vw)
        )
        query, key = rotate(query, rotation).to(value.dtype), rotate(key, rotation).to(value.dtype)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        y = self.attn_out(attended.transpose(1, 2).reshape(batch, length, width))
        x = x + modulation[2] * functional.dropout(y, self.dropout, self.training)
        y = self.mlp(modulate(self.norm2(x), modulation[3], modulation[4]).to(x.dtype))
        output: Tensor = x + modulation[5] * functional.dropout(y, self.dropout, self.training)
        return output


class FlowHead(nn.Module):
    """The final normalisation, modulated by the time, and the linear layer to logits."""

    def __init__(self, config: FlowConfig) -> None:
        """Initialise the head to 0."""
        super().__init__()
        self.norm_final = LayerNorm(config.width)
        self.linear = zero_linear(config.width, config.symbols)
        self.adaLN_modulation = zero_linear(config.conditioning, 2 * config.width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the input of ``linear``: (B, L, d)."""
        shift, scale = self.adaLN_modulation(time)[:, None].chunk(2, dim=2)
        return modulate(self.norm_final(x), shift, scale).to(x.dtype)


class FlowNetwork(nn.Module):
    """tokens and time -> blocks -> logits of all tokens."""

    def __init__(self, config: FlowConfig) -> None:
        """Initialise the network to the uniform distribution; attribute names are the keys of stored weights."""
        super().__init__()
        self.config = config
        self.checkpointing = False  # whether training recomputes the activations of the blocks to save memory
        self.vocab_embed = Embedding(config.symbols, config.width)
        self.time_embedding = TimeEmbedding(config.conditioning)
        self.rotary_emb = RotaryFrequencies(config.width // config.heads)
        if config.reach:
            self.near = nn.Linear(2 * config.reach * config.width, config.width, bias=False)
        self.blocks = nn.ModuleList(FlowBlock(config) for _ in range(config.layers))
        self.output_layer = FlowHead(config)

    def forward(self, symbols: Tensor, kappa: Tensor, real: Tensor | None = None) -> Tensor:
        """Return logits (B, L, V) without the mask; the arguments are those of ``features``."""
        return self.logits(self.features(symbols, kappa, real))

    def features(self, symbols: Tensor, kappa: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the features of each position: (B, L, d).

        Args:
            symbols: (B, L) token ids, with the mask at hidden positions.
            kappa: (B,) the time: 0 = noise, 1 = data.
            real: (B, L) False at padding after the end of a row; None without padding.
        """
        time = functional.silu(self.time_embedding(kappa))
        x = self.vocab_embed(symbols)
        if self.config.reach:
            x = x + self.near(neighbours(x if real is None else x * real[..., None], self.config.reach))
        allowed = None if real is None or bool(real.all()) else real[:, None, None]
        rotation = rotation_of(symbols.shape[1], self.config.width // self.config.heads, x.device)
        for block in self.blocks:
            arguments: tuple[Any, ...] = (x, time, rotation, allowed)
            recompute = self.checkpointing and self.training
            x = checkpoint(block, *arguments, use_reentrant=False) if recompute else block(*arguments)
        features: Tensor = self.output_layer(x, time)
        return features

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., V) of ``features`` (..., d)."""
        logits: Tensor = self.output_layer.linear(features)
        return logits[..., : self.config.tokens]

    def log_probs(self, features: Tensor, symbols: Tensor, kappa: Tensor) -> Tensor:
        """Return log p(v | input) (n, V), float32, from ``features`` (n, d), ``symbols`` (n,) and times (n,)."""
        logits = self.logits(features).float()
        if self.config.apart:
            logits = logits.scatter_add(-1, symbols[:, None], self_evidence(kappa, self.config.tokens)[:, None])
        return torch.log_softmax(logits, dim=-1)


def self_evidence(kappa: Tensor, tokens: int) -> Tensor:
    """Return log c(u | u) - log c(u | v) in nats, the log-likelihood ratio of an observed token (uniform source)."""
    kappa = kappa.float().clamp(max=MAX_KAPPA)
    return torch.log1p(kappa * tokens / (1 - kappa))


def neighbours(x: Tensor, reach: int) -> Tensor:
    """(B, L, 2 r d) the features within ``reach`` of each position of ``x`` (B, L, d), without the position itself."""
    length = x.shape[1]
    padded = functional.pad(x, (0, 0, reach, reach))
    return torch.cat([padded[:, shift : shift + length] for shift in range(2 * reach + 1) if shift != reach], dim=-1)
