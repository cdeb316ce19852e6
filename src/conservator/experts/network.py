"""The network of the byte experts: attention over patches of bytes, between light layers over bytes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BYTES = 256  # the outputs of the head
HIDDEN = BYTES  # the symbol that the network reads at a hidden position
OUTSIDE = HIDDEN + 1  # the symbol that n-grams read beyond either end of a sequence
# The n-grams of the memory, as offsets from a position. None contains the position itself, because it may be hidden.
GRAMS = ((-2, -1), (-3, -2, -1), (-5, -4, -3, -2, -1), (1, 2), (1, 2, 3), (1, 2, 3, 4, 5), (-1, 1), (-2, -1, 1, 2))
REACH = 5  # the largest of these offsets


@dataclass(frozen=True)
class NetworkConfig:
    """The size of a network.

    Attributes:
        context: L, the longest window it is trained on, and the longest it reads.
        channels: c, the width of the layers over bytes.
        convolutions: layers over bytes before the patches, and as many after them.
        reach: how many bytes a convolution sees on either side.
        hidden_channels: the width inside a convolution.
        memory: rows of the n-gram memory; 0 for none.
        memory_width: the width of a row.
        patch: bytes per patch; 1 and no convolutions give a plain transformer.
        width: d, the width of the transformer.
        layers: the number of its blocks.
        heads: attention heads of a block.
        dropout: the share of a block's outputs that training drops.
    """

    context: int = 1024
    channels: int = 64
    convolutions: int = 2
    reach: int = 3
    hidden_channels: int = 128
    memory: int = 163840
    memory_width: int = 16
    patch: int = 4
    width: int = 224
    layers: int = 4
    heads: int = 4
    dropout: float = 0.0


def normalise(x: Tensor) -> Tensor:
    """Divide the last axis by its root mean square."""
    return functional.rms_norm(x, (x.shape[-1],))


def linear(inputs: int, outputs: int, *, zero: bool = False) -> nn.Linear:
    """A linear map without bias; ``zero`` starts it at 0, so that a residual branch starts as the identity."""
    layer = nn.Linear(inputs, outputs, bias=False)
    if zero:
        nn.init.zeros_(layer.weight)
    return layer


class Convolution(nn.Module):
    """x + W_2 relu(W_1 [x_{l-r}, ..., x_{l+r}])^2, over bytes; what lies beyond the ends is 0."""

    def __init__(self, config: NetworkConfig) -> None:
        """Make the layer."""
        super().__init__()
        self.reach = config.reach
        self.up = linear(config.channels * (2 * config.reach + 1), config.hidden_channels)
        self.down = linear(config.hidden_channels, config.channels, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, L, c) to (B, L, c)."""
        length = x.shape[1]
        padded = functional.pad(normalise(x), (0, 0, self.reach, self.reach))
        around = torch.cat([padded[:, shift : shift + length] for shift in range(2 * self.reach + 1)], dim=-1)
        change: Tensor = self.down(functional.relu(self.up(around)).square())
        return x + change


class Block(nn.Module):
    """A transformer block: bidirectional attention with rotary positions, then a squared-ReLU perceptron."""

    def __init__(self, config: NetworkConfig) -> None:
        """Make the block."""
        super().__init__()
        self.heads = config.heads
        self.dropout = nn.Dropout(config.dropout)
        self.attend = linear(config.width, 3 * config.width)
        self.merge = linear(config.width, config.width, zero=True)
        self.up = linear(config.width, 4 * config.width)
        self.down = linear(4 * config.width, config.width, zero=True)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], allowed: Tensor | None) -> Tensor:
        """Map (B, N, d) to (B, N, d); ``allowed`` (B, 1, 1, N) says which patches may be attended to."""
        batch, length, width = x.shape
        split = self.attend(normalise(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = rotate(normalise(query), rotation), rotate(normalise(key), rotation)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        x = x + self.dropout(self.merge(mixed.transpose(1, 2).reshape(batch, length, width)))
        change: Tensor = self.dropout(self.down(functional.relu(self.up(normalise(x))).square()))
        return x + change


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs of coordinates of ``x`` (B, H, N, D) by the angles of their positions."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def rotation_of(length: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The cosines and sines (N, size/2) of the angles n * 10000^(-2k/size)."""
    frequency = 10000.0 ** (-torch.arange(size // 2, device=device, dtype=torch.float32) / (size // 2))
    angle = torch.arange(length, device=device)[:, None] * frequency
    return angle.cos(), angle.sin()


def gram_rows(symbols: Tensor, rows: int) -> Tensor:
    """The memory rows (B, L, n-grams) of the n-grams around each of the ``symbols`` (B, L), by a hash."""
    length = symbols.shape[1]
    padded = functional.pad(symbols, (REACH, REACH), value=OUTSIDE)
    found = []
    for kind, gram in enumerate(GRAMS, 1):
        mixed = torch.full_like(symbols, kind)
        for offset in gram:
            mixed = mixed * 1000003 ^ padded[:, REACH + offset : REACH + offset + length]
        # The high bits of a product with a large odd number depend on every bit of the key.
        found.append((mixed * 0x5851F42D4C957F2D >> 33) % rows)
    return torch.stack(found, dim=-1)


class Table(nn.Embedding):
    """An embedding that is not initialised on the meta device, where torch would import a compiler to do so."""

    def reset_parameters(self) -> None:
        """Draw the initial values, unless there is no storage for them."""
        if not self.weight.is_meta:
            super().reset_parameters()


class ByteNetwork(nn.Module):
    """An hourglass over bytes.

        bytes and n-grams -> convolutions -> patches -> transformer -> + convolutions -> logits of 256 bytes

    Attention, which is most of the cost, sees a sequence ``patch`` times shorter. The n-gram memory is a table. Each
    position reads one row of it for each of ``GRAMS``, so that it adds parameters at hardly any arithmetic cost.
    """

    def __init__(self, config: NetworkConfig) -> None:
        """Make the network; it starts at the uniform distribution."""
        super().__init__()
        self.config = config
        self.embed = Table(BYTES + 1, config.channels)
        if config.memory:
            self.memory = Table(config.memory, config.memory_width)
            nn.init.zeros_(self.memory.weight)
            self.recall = linear(config.memory_width * len(GRAMS), config.channels)
        self.before = nn.ModuleList(Convolution(config) for _ in range(config.convolutions))
        self.inward = linear(config.channels * config.patch, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.outward = linear(config.width, config.channels * config.patch, zero=True)
        self.after = nn.ModuleList(Convolution(config) for _ in range(config.convolutions))
        self.head = linear(config.channels, BYTES, zero=True)

    def forward(self, symbols: Tensor, real: Tensor) -> Tensor:
        """Return logits (B, L, 256) of ``symbols`` and ``real`` (B, L), as in ``features``."""
        return self.logits(self.features(symbols, real))

    def features(self, symbols: Tensor, real: Tensor) -> Tensor:
        """Return the features of each position: (B, L, c).

        Args:
            symbols: (B, L) bytes, or HIDDEN.
            real: (B, L) False at the padding after the end of a row, which does not change the features before it.
        """
        length, patch = symbols.shape[1], self.config.patch
        ragged = length % patch != 0 or not bool(real.all())
        if ragged:
            excess = -length % patch
            symbols = functional.pad(symbols.masked_fill(~real, HIDDEN), (0, excess), value=HIDDEN)
            real = functional.pad(real, (0, excess))
        keep = real[..., None] if ragged else None
        x = self.embed(symbols)
        if self.config.memory:
            rows = gram_rows(symbols if keep is None else symbols.masked_fill(~real, OUTSIDE), self.config.memory)
            x = x + self.recall(self.memory(rows).flatten(2))
        x = _cut(x, keep)
        for layer in self.before:
            x = _cut(layer(x), keep)
        patches = normalise(x).reshape(len(x), x.shape[1] // patch, patch * self.config.channels)
        y = self.inward(patches)
        allowed = real.view(len(x), 1, 1, x.shape[1] // patch, patch).any(-1) if ragged else None
        rotation = rotation_of(y.shape[1], self.config.width // self.config.heads, y.device)
        for block in self.blocks:
            y = block(y, rotation, allowed)
        x = _cut(x + self.outward(normalise(y)).reshape(x.shape), keep)
        for layer in self.after:
            x = _cut(layer(x), keep)
        return x[:, :length]

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., 256) of ``features`` (..., c), bounded, so that no byte has probability 0."""
        return 15 * torch.tanh(self.head(normalise(features)) / 15)


def _cut(x: Tensor, keep: Tensor | None) -> Tensor:
    """Set the rows of padding to 0."""
    return x if keep is None else x * keep
