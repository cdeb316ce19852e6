"""Local energies of a uniform-source expert, by the identity of its reverse process; and the paper's denoising score.

With kappa = exp(-sigma), u = x_t,l and the law of x_t,l given the others, p(v) = kappa cav(v) + (1 - kappa) / V,

    E_l(x) = integral over sigma of the mean over x_t of  (1/V) sum_v [ s(v) - r(v) log s(v) + r(v) log r(v) - r(v) ]
    s(v) = p(v) / p(u),   r(v) = c(v | x_l) / c(u | x_l)

For a Bayes denoiser the energies sum to -log q(x). Neither p nor the channel depends on u, which can therefore be
averaged out: what remains are two divergences of p from c(v) = c(v | x_l), one in each direction,

    sum_v c(v) log (c(v) / p(v))  +  (1/V) sum_v [ c(v) / p(v) - 1 - log (c(v) / p(v)) ]
"""

import numpy as np
import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import Context, Expert, checked_predict
from conservator.experts.uniform.cavity import cavity
from conservator.experts.uniform.path import log_channel, noised
from conservator.reference.experts.sequences import LIMIT, all_sequences

POWER = 2  # kappa = 1 - w^POWER with w uniform: more times near the data, where rare tokens have most of their energy
NUMBERS = 2**24  # predictions that are made at a time; more if a single sequence has more
LAST = 8  # points of the quadrature after the last time


def sampled_energies(
    expert: Expert, tokens: Tensor, samples: int, generator: torch.Generator, latest: float = 1.0
) -> Tensor:
    """The energies of sequences at every position, estimated from K noisings of each.

    The estimate is unbiased for a Bayes denoiser: the token at a position is averaged out, the others are drawn. The
    times are stratified.

    Near the data a denoiser is asked about noise of probability 1 - kappa, which a trained one does not resolve once
    its own error is larger, and its cavities there mean nothing. From ``latest`` on, the cavities of one noising at
    that time are used in their place, which costs one more evaluation and a small bias.

    Args:
        expert: with a uniform source.
        tokens: (B, L) candidate sequences.
        samples: K.
        generator: the source of all randomness.
        latest: the last time at which the expert is asked; 1 for all times.

    Returns:
        (B, L) energies in nats.
    """
    parts = tokens.split(at_once(expert, tokens))
    if len(parts) > 1:
        return torch.cat([sampled_energies(expert, part, samples, generator, latest) for part in parts])
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    for share in strata(samples, len(tokens), generator):
        kappa, weight = time_of(share, 0.0, latest)
        state = noised(tokens, kappa, expert.spec.vocabulary.size, generator)
        rows = averaged_terms(_cavities(expert, state, kappa), tokens.flatten(), _each(kappa, tokens))
        total += (weight / kappa)[:, None] * rows.reshape(tokens.shape) / samples
    if latest < 1:
        last = torch.full((len(tokens),), latest, dtype=torch.float64)
        found = _cavities(expert, noised(tokens, last, expert.spec.vocabulary.size, generator), last)
        for share, mass in zip(*quadrature(LAST), strict=True):
            kappa, weight = time_of(share, latest, 1.0)
            rows = averaged_terms(found, tokens.flatten(), kappa.expand(tokens.numel()))
            total += mass * weight / kappa * rows.reshape(tokens.shape)
    return total


def uniform_denoising_score(expert: Expert, tokens: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """The paper's K-sample denoising score, equation (dscore), with noise of the uniform source: (B, L) in nats.

    Without the schedule weight, and scored at every position, also where the token is still its own. For this source
    it is a heuristic: its sum is no likelihood.
    """
    parts = tokens.split(at_once(expert, tokens))
    if len(parts) > 1:
        return torch.cat([uniform_denoising_score(expert, part, samples, generator) for part in parts])
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    for kappa in strata(samples, len(tokens), generator):
        state = noised(tokens, kappa, expert.spec.vocabulary.size, generator)
        predicted = _predict(expert, state, kappa)
        total -= predicted.gather(-1, tokens.reshape(-1, 1)).reshape(tokens.shape)
    return total / samples


def expected_energies(expert: Expert, tokens: Tensor, nodes: int = 100) -> Tensor:
    """The energies, exactly averaged over x_t, with a quadrature over time: (B, L) in nats.

    Args:
        expert: any expert with a uniform source; it is evaluated on all V^L sequences at every time.
        tokens: (B, L) sequences.
        nodes: the number of times, of a Gauss-Legendre rule.
    """
    states = all_sequences(expert.spec.vocabulary.size, tokens.shape[1])
    if len(tokens) * len(states) > LIMIT:
        raise ConservatorError(f"{len(states)} noisings of {len(tokens)} sequences are too many to enumerate")
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    same = tokens[:, None] == states  # (B, states, L)
    for share, mass in zip(*quadrature(nodes), strict=True):
        kappa, weight = time_of(share)
        other, own = log_channel(kappa, expert.spec.vocabulary.size)
        chance = torch.where(same, own, other).sum(-1).exp()  # of x_t given x
        found = _cavities(expert, states, kappa.expand(len(states)))
        shape = (len(tokens), *states.shape)
        terms = local_terms(
            found.repeat(len(tokens), 1),
            states.expand(shape).reshape(-1),
            tokens[:, None].expand(shape).reshape(-1),
            kappa.expand(len(tokens) * states.numel()),
        )
        total += mass * weight / kappa * torch.einsum("bs,bsl->bl", chance, terms.reshape(shape))
    return total


def local_terms(cavities: Tensor, seen: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """(n,) the summand of the identity for clean ``tokens`` (n,) whose noisings are ``seen`` (n,), as it stands.

    Args:
        cavities: (n, V) log cav.
        seen: (n,) u.
        tokens: (n,) x_l.
        kappa: (n,).
    """
    size = cavities.shape[-1]
    other, own = (one[:, None] for one in log_channel(kappa.double(), size))
    law = noised_law(cavities, kappa)
    numbers = torch.arange(size)
    channel = torch.where(numbers == tokens[:, None], own, other)
    log_s = law - law.gather(-1, seen[:, None])
    log_r = channel - channel.gather(-1, seen[:, None])
    return (log_s.exp() + log_r.exp() * (log_r - log_s - 1)).sum(-1) / size  # 0 where v = u


def averaged_terms(cavities: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """(n,) the summand of the identity, averaged over what may stand in the place of each of the ``tokens`` (n,).

    Args:
        cavities: (n, V) log cav.
        tokens: (n,) x_l.
        kappa: (n,).
    """
    size = cavities.shape[-1]
    other, own = log_channel(kappa.double(), size)
    law = noised_law(cavities, kappa)
    at = law.gather(-1, tokens[:, None])[:, 0]
    gap_own, log_sum = own - at, law.sum(-1, dtype=torch.float64)
    # Sums over the other tokens, of which the channel has the same value.
    gap_others = (size - 1) * other - (log_sum - at)
    inverse = (other[:, None] - law).exp_().sum(-1) - (other - at).exp()
    forward = own.exp() * gap_own + other.exp() * gap_others
    backward = (gap_own.exp() - 1 - gap_own) + (inverse - (size - 1) - gap_others)
    return forward + backward / size


def noised_law(cavities: Tensor, kappa: Tensor) -> Tensor:
    """(n, V) log (kappa cav + (1 - kappa) / V): the law of x_t,l given the other tokens of x_t; float64."""
    kappa = kappa.double()[:, None]
    return cavities.exp().double().mul_(kappa).add_((1 - kappa) / cavities.shape[-1]).log_()


def at_once(expert: Expert, tokens: Tensor) -> int:
    """How many sequences are noised and read at a time, so that their predictions fit into memory; at least one."""
    return max(1, NUMBERS // (tokens.shape[1] * expert.spec.vocabulary.size))


def strata(samples: int, batch: int, generator: torch.Generator) -> Tensor:
    """(K, B) uniform numbers, one in each of K equal intervals, in random order for every sequence."""
    order = torch.rand(samples, batch, generator=generator).argsort(dim=0)
    return ((order + torch.rand(samples, batch, generator=generator)) / samples).double()


def time_of(share: Tensor, earliest: float = 0.0, latest: float = 1.0) -> tuple[Tensor, Tensor]:
    """The time kappa of a number in [0, 1], from ``latest`` down to ``earliest``, and the weight -dkappa / dshare.

    A time is never quite 0 or 1, where the integral has no value.
    """
    first, last = (1 - latest) ** (1 / POWER), (1 - earliest) ** (1 / POWER)
    place = (first + (last - first) * share.double()).clamp(1e-6, 1 - 1e-6)
    return 1 - place**POWER, (last - first) * POWER * place ** (POWER - 1)


def quadrature(nodes: int) -> tuple[Tensor, Tensor]:
    """The points and the weights of a Gauss-Legendre rule on [0, 1]."""
    points, weights = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(nodes))
    return (points + 1) / 2, weights / 2


def _each(kappa: Tensor, tokens: Tensor) -> Tensor:
    """(B L,) the time of every position."""
    return kappa[:, None].expand(tokens.shape).reshape(-1)


def _predict(expert: Expert, state: Tensor, kappa: Tensor) -> Tensor:
    """(B L, V) log p(x_l = v | x_t)."""
    context = Context(state, torch.zeros_like(state, dtype=torch.bool), kappa)
    return checked_predict(expert, context, context.everywhere())


def _cavities(expert: Expert, state: Tensor, kappa: Tensor) -> Tensor:
    """(B L, V) log cav at every position of ``state`` (B, L)."""
    return cavity(_predict(expert, state, kappa), state.flatten(), _each(kappa, state))
