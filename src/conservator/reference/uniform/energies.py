"""Local energies of a uniform-source expert, by the identity of its reverse process; and the paper's denoising score.

See the appendix "The uniform-source mismatch". With kappa = exp(-sigma), u = x_t,l and the distribution of x_t,l given
the others, p(v) = kappa cav(v) + (1 - kappa) / V,

    E_l(x) = integral over sigma of the mean over x_t of  (1/V) sum_v [ s(v) - r(v) log s(v) + r(v) log r(v) - r(v) ]
    s(v) = p(v) / p(u),   r(v) = c(v | x_l) / c(u | x_l)

For a Bayes denoiser the energies sum to -log q(x). Neither p nor the channel depends on u, which is therefore averaged
out. The result is two divergences of p from c(v) = c(v | x_l), one in each direction,

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

# exponent: kappa = 1 - w^TIME_POWER with w uniform; more times near the data, where rare tokens have most of their
# energy [untuned]
TIME_POWER = 2
MAX_BATCH_ENTRIES = 2**24  # numbers: predictions per batch; more if a single sequence has more [safety limit]
LATE_NODES = 8  # nodes: of the quadrature after the time ``latest`` [untuned]


def sampled_energies(
    expert: Expert, tokens: Tensor, samples: int, generator: torch.Generator, latest: float = 1.0
) -> Tensor:
    """Estimate the energies of sequences at every position from K noisings of each.

    The estimate is unbiased for a Bayes denoiser: the token at a position is averaged out, the others are drawn. The
    times are stratified.

    Near the data, noise has the probability 1 - kappa. A trained denoiser does not resolve it if its own error is
    larger, and its cavities are meaningless there. From ``latest`` on, the cavities of one noising at that time replace
    them, which costs one more evaluation and a small bias.

    Args:
        expert: with a uniform source.
        tokens: (B, L) candidate sequences.
        samples: K.
        generator: the source of all randomness.
        latest: the last time at which the expert is evaluated; 1 for all times.

    Returns:
        (B, L) energies in nats.
    """
    batches = tokens.split(batch_size_for(expert, tokens))
    if len(batches) > 1:
        return torch.cat([sampled_energies(expert, batch, samples, generator, latest) for batch in batches])
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    for fraction in strata(samples, len(tokens), generator):
        kappa, weight = time_of(fraction, 0.0, latest)
        state = noised(tokens, kappa, expert.spec.vocabulary.size, generator)
        rows = averaged_terms(_cavities(expert, state, kappa), tokens.flatten(), _each(kappa, tokens))
        total += (weight / kappa)[:, None] * rows.reshape(tokens.shape) / samples
    if latest < 1:
        last = torch.full((len(tokens),), latest, dtype=torch.float64)
        cavities = _cavities(expert, noised(tokens, last, expert.spec.vocabulary.size, generator), last)
        for fraction, mass in zip(*quadrature(LATE_NODES), strict=True):
            kappa, weight = time_of(fraction, latest, 1.0)
            rows = averaged_terms(cavities, tokens.flatten(), kappa.expand(tokens.numel()))
            total += mass * weight / kappa * rows.reshape(tokens.shape)
    return total


def uniform_denoising_score(expert: Expert, tokens: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Compute the K-sample denoising score, equation (dscore), with noise of the uniform source: (B, L) in nats.

    There is no schedule weight, and every position is scored, also if its token is unchanged. For this source the score
    is a heuristic: its sum is not a likelihood.
    """
    batches = tokens.split(batch_size_for(expert, tokens))
    if len(batches) > 1:
        return torch.cat([uniform_denoising_score(expert, batch, samples, generator) for batch in batches])
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    for kappa in strata(samples, len(tokens), generator):
        state = noised(tokens, kappa, expert.spec.vocabulary.size, generator)
        predicted = _predict(expert, state, kappa)
        total -= predicted.gather(-1, tokens.reshape(-1, 1)).reshape(tokens.shape)
    return total / samples


def expected_energies(expert: Expert, tokens: Tensor, nodes: int = 100) -> Tensor:
    """Compute the energies, exactly averaged over x_t, with a quadrature over time: (B, L) in nats.

    Args:
        expert: any expert with a uniform source; it is evaluated on all V^L sequences at every time.
        tokens: (B, L) sequences.
        nodes: the number of times of the Gauss-Legendre rule.
    """
    states = all_sequences(expert.spec.vocabulary.size, tokens.shape[1])
    if len(tokens) * len(states) > LIMIT:
        raise ConservatorError(
            f"{len(states)} noisings of {len(tokens)} sequences are too many to enumerate; the limit is {LIMIT}"
        )
    total = torch.zeros(tokens.shape, dtype=torch.float64)
    matches = tokens[:, None] == states  # (B, states, L)
    for fraction, mass in zip(*quadrature(nodes), strict=True):
        kappa, weight = time_of(fraction)
        other, same = log_channel(kappa, expert.spec.vocabulary.size)
        state_probs = torch.where(matches, same, other).sum(-1).exp()  # p(x_t | x)
        cavities = _cavities(expert, states, kappa.expand(len(states)))
        shape = (len(tokens), *states.shape)
        terms = local_terms(
            cavities.repeat(len(tokens), 1),
            states.expand(shape).reshape(-1),
            tokens[:, None].expand(shape).reshape(-1),
            kappa.expand(len(tokens) * states.numel()),
        )
        total += mass * weight / kappa * torch.einsum("bs,bsl->bl", state_probs, terms.reshape(shape))
    return total


def local_terms(cavities: Tensor, noised_tokens: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """Return (n,) the summand of the identity for clean ``tokens`` (n,) with noised tokens ``noised_tokens`` (n,).

    Args:
        cavities: (n, V) log cav.
        noised_tokens: (n,) u.
        tokens: (n,) x_l.
        kappa: (n,).
    """
    size = cavities.shape[-1]
    other, same = (log_prob[:, None] for log_prob in log_channel(kappa.double(), size))
    log_noised = noised_log_probs(cavities, kappa)
    candidates = torch.arange(size)
    channel = torch.where(candidates == tokens[:, None], same, other)
    log_s = log_noised - log_noised.gather(-1, noised_tokens[:, None])
    log_r = channel - channel.gather(-1, noised_tokens[:, None])
    return (log_s.exp() + log_r.exp() * (log_r - log_s - 1)).sum(-1) / size  # 0 where v = u


def averaged_terms(cavities: Tensor, tokens: Tensor, kappa: Tensor) -> Tensor:
    """Return (n,) the summand of the identity, averaged over the noised token in place of each of the ``tokens`` (n,).

    Args:
        cavities: (n, V) log cav.
        tokens: (n,) x_l.
        kappa: (n,).
    """
    size = cavities.shape[-1]
    other, same = log_channel(kappa.double(), size)
    log_noised = noised_log_probs(cavities, kappa)
    log_same = log_noised.gather(-1, tokens[:, None])[:, 0]
    gap_same, log_sum = same - log_same, log_noised.sum(-1, dtype=torch.float64)
    # Sums over the other tokens, for which the channel has the same value.
    gap_others = (size - 1) * other - (log_sum - log_same)
    inverse = (other[:, None] - log_noised).exp_().sum(-1) - (other - log_same).exp()
    forward = same.exp() * gap_same + other.exp() * gap_others
    backward = (gap_same.exp() - 1 - gap_same) + (inverse - (size - 1) - gap_others)
    return forward + backward / size


def noised_log_probs(cavities: Tensor, kappa: Tensor) -> Tensor:
    """Return (n, V) log (kappa cav + (1 - kappa) / V), the distribution of x_t,l given the other tokens; float64."""
    kappa = kappa.double()[:, None]
    return cavities.exp().double().mul_(kappa).add_((1 - kappa) / cavities.shape[-1]).log_()


def batch_size_for(expert: Expert, tokens: Tensor) -> int:
    """Return the number of sequences per batch whose predictions fit into memory; at least one."""
    return max(1, MAX_BATCH_ENTRIES // (tokens.shape[1] * expert.spec.vocabulary.size))


def strata(samples: int, batch: int, generator: torch.Generator) -> Tensor:
    """Return (K, B) uniform numbers, one in each of K equal intervals, in random order for every sequence."""
    order = torch.rand(samples, batch, generator=generator).argsort(dim=0)
    return ((order + torch.rand(samples, batch, generator=generator)) / samples).double()


def time_of(fraction: Tensor, earliest: float = 0.0, latest: float = 1.0) -> tuple[Tensor, Tensor]:
    """Map fractions in [0, 1] to times kappa, from ``latest`` down to ``earliest``; also return -dkappa / dfraction.

    Times are kept away from 0 and 1, where the integrand is undefined.
    """
    first, last = (1 - latest) ** (1 / TIME_POWER), (1 - earliest) ** (1 / TIME_POWER)
    root = (first + (last - first) * fraction.double()).clamp(1e-6, 1 - 1e-6)
    return 1 - root**TIME_POWER, (last - first) * TIME_POWER * root ** (TIME_POWER - 1)


def quadrature(nodes: int) -> tuple[Tensor, Tensor]:
    """Return the points and the weights of a Gauss-Legendre rule on [0, 1]."""
    points, weights = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(nodes))
    return (points + 1) / 2, weights / 2


def _each(kappa: Tensor, tokens: Tensor) -> Tensor:
    """Return (B L,) the time of every position."""
    return kappa[:, None].expand(tokens.shape).reshape(-1)


def _predict(expert: Expert, state: Tensor, kappa: Tensor) -> Tensor:
    """Return (B L, V) log p(x_l = v | x_t)."""
    context = Context(state, torch.zeros_like(state, dtype=torch.bool), kappa)
    return checked_predict(expert, context, context.everywhere())


def _cavities(expert: Expert, state: Tensor, kappa: Tensor) -> Tensor:
    """Return (B L, V) log cav at every position of ``state`` (B, L)."""
    return cavity(_predict(expert, state, kappa), state.flatten(), _each(kappa, state))
