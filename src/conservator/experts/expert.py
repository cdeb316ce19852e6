"""The expert contract: what the composition asks of a frozen model (section "Expert requirements")."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from conservator.errors import ConservatorError

PAD = -1  # the token after the end of a row that is shorter than its batch
IMPOSSIBLE = -1e4  # exp(-1e4) is 0 in every float type, and 0 * IMPOSSIBLE is 0 where 0 * -inf is nan


@dataclass(frozen=True)
class ExpertSpec:
    """What a caller must know of an expert; never inferred from a family's name.

    Attributes:
        name: how tables and reports call it.
        vocab_size: V, without any mask symbol.
        max_length: the longest sequence it reads, or None for any.
        source: where its path starts: at masked tokens.
        time: what it is told of kappa: nothing, it sees how much is hidden.
        fingerprint: a hash of its weights, or "" for an expert made in memory.
    """

    name: str
    vocab_size: int
    max_length: int | None = None
    source: Literal["mask"] = "mask"
    time: Literal["none"] = "none"
    fingerprint: str = ""


class Expert(Protocol):
    """A frozen mask-source denoiser h_i.

    ``log_probs(tokens, hidden, kappa)`` returns log p_i(x_l = v | visible tokens): (B, L, V), float32 (float64 from
    the exact experts), finite and normalised over v. It depends on ``tokens`` at visible positions alone. At a
    visible position an expert copies: its row is a point mass and carries no evidence, which has to be read with
    the position hidden. ``kappa`` is the time, 0 = noise and 1 = data, that is the expected share of visible
    tokens: a number or (B,); experts without a time input ignore it. A row that is shorter than its batch ends in
    PAD, which changes nothing before it.
    """

    @property
    def spec(self) -> ExpertSpec:
        """The expert's description."""

    def log_probs(self, tokens: Tensor, hidden: Tensor, kappa: float | Tensor) -> Tensor:
        """Return log p_i(x_l = v | visible tokens) for ``tokens`` and ``hidden``, both (B, L)."""


def check_batch(spec: ExpertSpec, tokens: Tensor) -> None:
    """Raise unless ``tokens`` is a batch (B, L) of sequences that the expert can read."""
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        shape = tuple(tokens.shape)
        raise ConservatorError(f"tokens have the shape {shape}; the expert {spec.name!r} reads (sequences, positions)")
    if spec.max_length is not None and tokens.shape[1] > spec.max_length:
        raise ConservatorError(
            f"the sequences have {tokens.shape[1]} positions; the expert {spec.name!r} reads at most {spec.max_length}"
        )


def copy_visible(log_probs: Tensor, tokens: Tensor, hidden: Tensor) -> Tensor:
    """Make the rows of ``log_probs`` (B, L, V) at visible positions point masses at their token."""
    candidates = torch.arange(log_probs.shape[-1], device=tokens.device)
    copied = torch.where(tokens[..., None] == candidates, 0.0, IMPOSSIBLE).to(log_probs.dtype)
    return torch.where(hidden[..., None], log_probs, copied)
