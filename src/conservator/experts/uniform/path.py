"""The path of a uniform source: at time kappa a position has its clean token with probability kappa, else any token."""

import numpy as np
import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import PAD, Context, ExpertSpec


def log_channel(kappa: Tensor, vocab_size: int) -> tuple[Tensor, Tensor]:
    """The two values of log c(u | v), c(u | v) = kappa [u = v] + (1 - kappa) / V: for u != v, and for u = v.

    They have the shape of ``kappa``. The first is -inf at kappa = 1.
    """
    different = (1 - kappa) / vocab_size
    return different.log(), (kappa + different).log()


def noised(tokens: Tensor, kappa: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Sample x_t from ``tokens`` (B, L) at the times ``kappa`` (B,); padding is unchanged."""
    noise = torch.randint(vocab_size, tokens.shape, generator=generator)
    keep = torch.rand(tokens.shape, generator=generator) < kappa[:, None]
    return torch.where(keep | (tokens == PAD), tokens, noise)


def source_tokens(positions: Tensor, vocab_size: int, seed: int) -> Tensor:
    """Return tokens of the source at absolute ``positions`` of a document, in the shape of ``positions``.

    A token is a pure function of seed and position, so every window of a document has the same noise.
    """
    with np.errstate(over="ignore"):
        state = splitmix64(np.full(1, seed & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64))
        state = splitmix64(splitmix64(state) + positions.numpy().astype(np.uint64))
    return torch.from_numpy((state >> np.uint64(11)).astype(np.int64) % vocab_size)


def splitmix64(
    state: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Apply the increment and the finaliser of the splitmix64 generator to each number."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def check_uniform(spec: ExpertSpec, context: Context) -> Tensor:
    """Return kappa (B,) of a context; raise a ConservatorError unless a uniform-source expert can read it."""
    if context.hidden.any():
        raise ConservatorError(
            f"expert {spec.name!r} has a uniform source: no token may be hidden, got {int(context.hidden.sum())} "
            "hidden tokens; MaskedFromUniform(expert) fills them with noise"
        )
    if context.time is None:
        raise ConservatorError(f"expert {spec.name!r} has a uniform source: context.time (kappa) must be given")
    return context.time
