"""The network of the byte experts: attention over patches of bytes, between small layers over bytes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

NUM_BYTES = 256  # bytes: number of outputs of the head [definition]
HIDDEN = NUM_BYTES  # input symbol at a hidden position
BOUNDARY = HIDDEN + 1  # symbol of the n-grams beyond either end of a sequence
# The n-grams of the memory. None contains the position itself, because it may be hidden.
# positions: offsets of the symbols of each n-gram [LOG: byte-network]
NGRAMS = ((-2, -1), (-3, -2, -1), (-5, -4, -3, -2, -1), (1, 2), (1, 2, 3), (1, 2, 3, 4, 5), (-1, 1), (-2, -1, 1, 2))
MAX_OFFSET = 5  # positions: the largest offset in NGRAMS [definition]
LOGIT_BOUND = 15  # nats: bound of the absolute logits, so that no byte has probability 0 [untuned]


@dataclass(frozen=True)
class NetworkConfig:
    """The sizes of a network. ``config.json`` stores them under these names.

    Attributes:
        context: L, maximum window length in bytes.
        channels: c, width of the layers over bytes.
        convolutions: number of layers over bytes before the patches, and again after them.
        reach: r, radius of a convolution in bytes.
        hidden_channels: width of the hidden layer of a convolution.
        memory: number of rows of the n-gram memory; 0 for none.
        memory_width: width of a row.
        patch: bytes per patch; 1 without convolutions gives a plain transformer.
        width: d, width of the transformer.
        layers: number of transformer blocks.
        heads: attention heads per block.
        dropout: dropout probability of the outputs of a block.
    """

    context: int = 1024  # bytes: maximum window length [LOG: byte-network]
    channels: int = 64  # features: width of byte layers [LOG: byte-network-first-experiments]
    convolutions: int = 2  # layers: before and after the transformer [LOG: byte-network-first-experiments]
    reach: int = 3  # bytes: on either side [LOG: byte-network-first-experiments]
    hidden_channels: int = 128  # features: inside a convolution [LOG: byte-network-first-experiments]
    memory: int = 163840  # rows: size of the n-gram memory [LOG: byte-network]
    memory_width: int = 16  # features: of a row [LOG: byte-network]
    patch: int = 4  # bytes: per patch [LOG: byte-network]
    width: int = 224  # features: of the transformer [LOG: byte-network]
    layers: int = 4  # blocks: depth of the transformer [LOG: byte-network]
    heads: int = 4  # heads: per block [untuned]
    dropout: float = 0.0  # probability: of dropping an output [untuned]


def normalise(x: Tensor) -> Tensor:
    """Divide the last axis by its root mean square."""
    return functional.rms_norm(x, (x.shape[-1],))


def linear(inputs: int, outputs: int, *, zero: bool = False) -> nn.Linear:
    """A linear layer without bias; ``zero`` initialises it to 0, so that a residual block starts as the identity."""
    layer = nn.Linear(inputs, outputs, bias=False)
    if zero:
        nn.init.zeros_(layer.weight)
    return layer


class Convolution(nn.Module):
    """x + W_2 relu(W_1 [x_{l-r}, ..., x_{l+r}])^2, over bytes, with zero padding."""

    def __init__(self, config: NetworkConfig) -> None:
        """Initialise the layer."""
        super().__init__()
        self.reach = config.reach
        self.up = linear(config.channels * (2 * config.reach + 1), config.hidden_channels)
        self.down = linear(config.hidden_channels, config.channels, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, L, c) to (B, L, c)."""
        length = x.shape[1]
        padded = functional.pad(normalise(x), (0, 0, self.reach, self.reach))
        neighbours = torch.cat([padded[:, shift : shift + length] for shift in range(2 * self.reach + 1)], dim=-1)
        change: Tensor = self.down(functional.relu(self.up(neighbours)).square())
        return x + change


class Block(nn.Module):
    """A transformer block: bidirectional attention with rotary positions, then a squared-ReLU perceptron."""

    def __init__(self, config: NetworkConfig) -> None:
        """Initialise the block."""
        super().__init__()
        self.heads = config.heads
        self.dropout = nn.Dropout(config.dropout)
        self.attend = linear(config.width, 3 * config.width)
        self.merge = linear(config.width, config.width, zero=True)
        self.up = linear(config.width, 4 * config.width)
        self.down = linear(4 * config.width, config.width, zero=True)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], allowed: Tensor | None) -> Tensor:
        """Map (B, N, d) to (B, N, d); ``allowed`` (B, 1, 1, N) is the attention mask, True for patches with content."""
        batch, length, width = x.shape
        split = self.attend(normalise(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = rotate(normalise(query), rotation), rotate(normalise(key), rotation)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        x = x + self.dropout(self.merge(attended.transpose(1, 2).reshape(batch, length, width)))
        change: Tensor = self.dropout(self.down(functional.relu(self.up(normalise(x))).square()))
        return x + change


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the pairs of coordinates of ``x`` (B, H, N, D) by the angles of their positions."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def rotation_of(length: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (N, size/2) of the angles n * 10000^(-2k/size)."""
    frequency = 10000.0 ** (-torch.arange(size // 2, device=device, dtype=torch.float32) / (size // 2))
    angle = torch.arange(length, device=device)[:, None] * frequency
    return angle.cos(), angle.sin()


def ngram_rows(symbols: Tensor, rows: int) -> Tensor:
    """Hash the n-grams around each of the ``symbols`` (B, L) to memory rows (B, L, number of n-grams)."""
    length = symbols.shape[1]
    padded = functional.pad(symbols, (MAX_OFFSET, MAX_OFFSET), value=BOUNDARY)
    hashes = []
    for index, ngram in enumerate(NGRAMS, 1):
        key = torch.full_like(symbols, index)
        for offset in ngram:
            key = key * 1000003 ^ padded[:, MAX_OFFSET + offset : MAX_OFFSET + offset + length]
        # The high bits of a product with a large odd number depend on every bit of the key.
        hashes.append((key * 0x5851F42D4C957F2D >> 33) % rows)
    return torch.stack(hashes, dim=-1)


class Embedding(nn.Embedding):
    """An embedding without initialisation on the meta device, where torch would import a compiler for it."""

    def reset_parameters(self) -> None:
        """Draw the initial values, except on the meta device."""
        if not self.weight.is_meta:
            super().reset_parameters()


class ByteNetwork(nn.Module):
    """An hourglass network over bytes.

        bytes and n-grams -> convolutions -> patches -> transformer -> + convolutions -> logits of 256 bytes

    Attention dominates the cost and works on a sequence that is ``patch`` times shorter. The n-gram memory is an
    embedding table. Each position reads one row for each of ``NGRAMS``, which adds parameters but little arithmetic.
    """

    def __init__(self, config: NetworkConfig) -> None:
        """Initialise the network to the uniform distribution; attribute names are the keys of stored weights."""
        super().__init__()
        self.config = config
        self.embed = Embedding(NUM_BYTES + 1, config.channels)
        if config.memory:
            self.memory = Embedding(config.memory, config.memory_width)
            nn.init.zeros_(self.memory.weight)
            self.recall = linear(config.memory_width * len(NGRAMS), config.channels)
        self.before = nn.ModuleList(Convolution(config) for _ in range(config.convolutions))
        self.inward = linear(config.channels * config.patch, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.outward = linear(config.width, config.channels * config.patch, zero=True)
        self.after = nn.ModuleList(Convolution(config) for _ in range(config.convolutions))
        self.head = linear(config.channels, NUM_BYTES, zero=True)

    def forward(self, symbols: Tensor, real: Tensor) -> Tensor:
        """Return logits (B, L, 256); the arguments are those of ``features``."""
        return self.logits(self.features(symbols, real))

    def features(self, symbols: Tensor, real: Tensor) -> Tensor:
        """Return the features of each position: (B, L, c).

        Args:
            symbols: (B, L) bytes, or HIDDEN.
            real: (B, L) False at padding after the end of a row; padding does not change the features before it.
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
            rows = ngram_rows(symbols if keep is None else symbols.masked_fill(~real, BOUNDARY), self.config.memory)
            x = x + self.recall(self.memory(rows).flatten(2))
        x = _zero_padding(x, keep)
        for layer in self.before:
            x = _zero_padding(layer(x), keep)
        patches = normalise(x).reshape(len(x), x.shape[1] // patch, patch * self.config.channels)
        y = self.inward(patches)
        allowed = real.view(len(x), 1, 1, x.shape[1] // patch, patch).any(-1) if ragged else None
        rotation = rotation_of(y.shape[1], self.config.width // self.config.heads, y.device)
        for block in self.blocks:
            y = block(y, rotation, allowed)
        x = _zero_padding(x + self.outward(normalise(y)).reshape(x.shape), keep)
        for layer in self.after:
            x = _zero_padding(layer(x), keep)
        return x[:, :length]

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits (..., 256) of ``features`` (..., c), bounded by LOGIT_BOUND."""
        return LOGIT_BOUND * torch.tanh(self.head(normalise(features)) / LOGIT_BOUND)


def _zero_padding(x: Tensor, keep: Tensor | None) -> Tensor:
    """Set the features of padding to 0."""
    return x if keep is None else x * keep
