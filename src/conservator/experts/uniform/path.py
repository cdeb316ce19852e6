"""The path of a uniform source: at time kappa a position has its own token with probability kappa, else any token."""

import numpy as np
import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import PAD, Context, ExpertSpec


def log_channel(kappa: Tensor, vocab_size: int) -> tuple[Tensor, Tensor]:
    """The two values of log c(u | v), c(u | v) = kappa [u = v] + (1 - kappa) / V: for another token, and for its own.

    They have the shape of ``kappa``. The first is -inf at kappa = 1.
    """
    other = (1 - kappa) / vocab_size
    return other.log(), (kappa + other).log()


def noised(tokens: Tensor, kappa: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Draw x_t from ``tokens`` (B, L) at the times ``kappa`` (B,); padding stays."""
    noise = torch.randint(vocab_size, tokens.shape, generator=generator)
    stays = torch.rand(tokens.shape, generator=generator) < kappa[:, None]
    return torch.where(stays | (tokens == PAD), tokens, noise)


def source_tokens(positions: Tensor, vocab_size: int, seed: int, draw: int = 0) -> Tensor:
    """Tokens of the source at absolute ``positions`` of a document, of the shape of these.

    A token is a pure function of the seed, the position and the number of the draw: whatever reads a document, and in
    whatever windows, finds the same noise at the same place.
    """
    with np.errstate(over="ignore"):
        state = scrambled(np.full(1, seed & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64))
        state = scrambled(state + np.uint64(draw))
        state = scrambled(state + positions.numpy().astype(np.uint64))
    return torch.from_numpy((state >> np.uint64(11)).astype(np.int64) % vocab_size)


def scrambled(
    state: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Each of these numbers as another that looks random: the step and the finaliser of the splitmix64 generator."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def check_uniform(spec: ExpertSpec, context: Context) -> Tensor:
    """Return kappa (B,) of a context; raise unless an expert with a uniform source can read it."""
    if context.hidden.any():
        raise ConservatorError(
            f"the expert {spec.name!r} has a uniform source and reads every token, but {int(context.hidden.sum())} are "
            "hidden from it; Hiding(expert) fills them with noise"
        )
    if context.time is None:
        raise ConservatorError(f"the expert {spec.name!r} has a uniform source and needs kappa as the context's time")
    return context.time
