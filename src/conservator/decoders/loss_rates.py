"""Loss rates of tokens: damage may erase some tokens more often than others.

Ink fills some letters, a worm eats letters and no blanks, a wrong encoding loses no ASCII. The rates are inferred from
the predictions p_l(v) of the lost positions and from the number N(v) of visible tokens v. With n lost positions, the
overall rate rho, and the strength s of the prior, EM finds the fixed point of

    n(v) = sum_l rate(v) p_l(v) / sum_u rate(u) p_l(u),   rate(v) = rho (n(v) + s) / (rho (N(v) + n(v)) + s)

This is the maximum of the Poisson likelihood of n(v) times a gamma prior with the mean rho. Without evidence, all rates
are rho, so that an erasure says nothing about the token.
"""

from dataclasses import dataclass

import numpy as np

from conservator.arrays import Floats


@dataclass(frozen=True)
class LossRateConfig:
    """Prior and EM of the loss rates."""

    prior_strength: float = 10.0  # tokens: prior count of lost tokens of each kind [LOG: word-expert]
    max_positions: int = 2**14  # positions: evenly spaced sample of the lost positions [safety limit]
    max_iterations: int = 50  # iterations: of EM [numerical]
    tolerance: float = 1e-3  # ratio: EM stops at a smaller change of all rates, relative to rho [numerical]


CONFIG = LossRateConfig()


def infer_loss_rates(log_probs: Floats, visible: Floats) -> Floats:
    """Infer the loss rate of each token: (V,), strictly between 0 and 1.

    Args:
        log_probs: (n, V) predictions of the lost positions.
        visible: (V,) number of visible tokens of each kind.
    """
    sample = np.linspace(0, len(log_probs) - 1, min(len(log_probs), CONFIG.max_positions)).round().astype(np.int64)
    probs = np.exp(log_probs[sample])
    scale = len(log_probs) / max(1, len(sample))
    overall = (len(log_probs) + 1) / (len(log_probs) + visible.sum() + 2)
    ratio = np.ones(len(visible))
    for _ in range(CONFIG.max_iterations):
        lost = scale * ratio * (probs.T @ (1 / (probs @ ratio)))
        before, ratio = ratio, lost + CONFIG.prior_strength
        ratio = ratio / (overall * (visible + lost) + CONFIG.prior_strength)
        if np.abs(ratio - before).max() < CONFIG.tolerance:
            break
    rates: Floats = overall * ratio / max(1.0, 2 * overall * ratio.max())
    return rates
