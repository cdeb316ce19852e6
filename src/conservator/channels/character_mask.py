"""The mask channel for lost characters: each lost byte is a certain byte of a character of known width."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.channels.channel import Channel, check_tokens
from conservator.channels.likelihood import Likelihood, pick
from conservator.channels.observation import Excerpt, Observation, Status
from conservator.errors import ConservatorError
from conservator.vocabularies import BYTES

# The kind of a byte: any byte, ASCII, the first byte of a character of 2, 3 or 4 bytes, or one of its other bytes.
ANY, ASCII, FIRST_OF_2, FIRST_OF_3, FIRST_OF_4, FURTHER = range(6)
# bytes: first and last byte of each kind [definition]
RANGES = ((0x00, 0xFF), (0x00, 0x7F), (0xC2, 0xDF), (0xE0, 0xEF), (0xF0, 0xF4), (0x80, 0xBF))
MAX_WIDTH = 4  # bytes: width of the widest character [definition]
_bytes = torch.arange(BYTES.size)
LOG_ALLOWED = torch.stack(
    [torch.where((_bytes >= first) & (_bytes <= last), 0.0, -torch.inf) for first, last in RANGES]
).double()


def kinds_of_characters(widths: Ints) -> Ints:
    """Return the kinds of the bytes of characters with ``widths`` (n,), one character after the other."""
    first = np.cumsum(widths) - widths
    kinds = np.full(int(widths.sum()), FURTHER)
    kinds[first] = widths
    return kinds


@dataclass(frozen=True)
class CharacterMaskLikelihood(Likelihood):
    """The likelihood is the weight of each byte of the kind of a lost position, and a point mass at a visible one.

    Attributes:
        kinds: (..., L) the kind of each byte; ANY at visible positions.
        log_weights: (V,) log-weight of each byte: its loss rate, and whether its characters occur in such documents.
        rates_known: whether the weights include loss rates.
    """

    kinds: Tensor
    log_weights: Tensor
    rates_known: bool = False

    @property
    def has_loss_rates(self) -> bool:
        """Whether the loss rates are known."""
        return self.rates_known

    def with_loss_rates(self, rates: Tensor) -> Self:
        """Return the likelihood with the loss rate of each byte (V,), which was not known."""
        return replace(self, log_weights=self.log_weights + rates.log(), rates_known=True)

    def __getitem__(self, index: Any) -> Self:
        """Return the likelihood at the positions ``index``."""
        return replace(self, tokens=self.tokens[index], kinds=self.kinds[index])

    def table(self) -> Tensor:
        """Return log c_l(v): log w(v) for the bytes of the kind of a lost position, 0 at the byte of a visible one."""
        same = self.tokens[..., None] == torch.arange(self.vocab_size)
        visible = torch.where(same, 0.0, -torch.inf).double()
        return torch.where(self.lost[..., None], self.log_kinds[self.kinds], visible)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return the log-probability of the kind where lost, log pi(y) where visible."""
        visible = pick(log_probs, self.tokens.masked_fill(self.lost, 0))
        return torch.where(self.lost, torch.logsumexp(self.log_kinds[self.kinds] + log_probs, dim=-1), visible)

    @property
    def log_kinds(self) -> Tensor:
        """(6, V) the log-likelihood of each byte, for each kind."""
        return LOG_ALLOWED + self.log_weights


class CharacterMaskChannel(Channel):
    """Characters are erased, and the observation shows the width of each lost character.

    The channel belongs to one document, because the kind of a lost byte depends on its position.
    """

    def __init__(self, kinds: Ints, weights: Floats | None = None, *, rates_known: bool = False) -> None:
        """Make the channel of a document.

        Args:
            kinds: (L,) kinds of the bytes of the document, ANY at visible positions.
            weights: (V,) weight of each byte of a lost character; equal by default.
            rates_known: whether the weights include the loss rate of each byte.
        """
        self.vocab_size, self.outputs = BYTES.size, BYTES.size + 1
        self.kinds, self.rates_known = torch.from_numpy(kinds), rates_known
        self.log_weights = torch.from_numpy(np.log(np.ones(BYTES.size) if weights is None else weights))

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Return the bytes ``tokens`` (1, L) without those that have a kind; nothing is random."""
        tokens = check_tokens(tokens, self.vocab_size)
        return self.observe(tokens.masked_fill(self.kinds != ANY, self.vocab_size))

    def status(self, tokens: Tensor) -> Tensor:
        """Return LOST for masked bytes, KNOWN for all others."""
        return (tokens == self.vocab_size).to(torch.uint8) * int(Status.LOST)

    def likelihood(self, tokens: Tensor) -> CharacterMaskLikelihood:
        """Return the likelihood of all bytes of the document."""
        if tokens.shape[-1] != len(self.kinds):
            raise ConservatorError(f"expected {len(self.kinds)} bytes, got {tokens.shape[-1]}")
        kinds = self.kinds.expand(tokens.shape)
        return CharacterMaskLikelihood(tokens, self.vocab_size, kinds, self.log_weights, self.rates_known)

    def observe(self, tokens: Tensor, excerpt: Excerpt | None = None) -> Observation:
        """Return the damaged document, or an excerpt of it, as an observation."""
        channel = self
        if excerpt is not None:
            kinds, weights = self.kinds[excerpt.positions].numpy(), self.log_weights.exp().numpy()
            channel = CharacterMaskChannel(kinds, weights, rates_known=self.rates_known)
        return Channel.observe(channel, tokens, excerpt)
