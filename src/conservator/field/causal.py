"""The field over causal experts: every visible byte is predicted from its left, so one pass each tells them apart."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.field.grid_posterior import GridPosterior, grid_posterior
from conservator.field.weight_grid import MarkovPrior, simplex_grid

STEPS = 10  # steps of the lattice from one expert to another


def infer_causal_field(
    laws: Sequence[Tensor],
    tokens: NDArray[np.int64],
    visible: NDArray[np.bool_],
    priors: Sequence[MarkovPrior] | None = None,
) -> GridPosterior:
    """The posterior of the field over m causal experts, given the visible tokens of a text.

        e_l(s) = log pi_{w_s}(x_l | x_<l),   with the pool pi_w(v) proportional to prod_i q_i(v | x_<l)^{w_i}

    Each position is predicted given those before it, so the evidence of a composition is an exact chain rule; only the
    lost tokens among those before it are guesses.

    Args:
        laws: of each expert (L, V), log q_i(x_l = v | x_<l).
        tokens: (L,) the text, with the best guess at lost places.
        visible: (L,) True where a token is known.
        priors: from which the one with the highest evidence is chosen; the default ones if none are given.
    """
    weights = simplex_grid(len(laws), STEPS)
    emissions = np.zeros((len(tokens), len(weights)))
    picked = np.stack([one.gather(1, torch.from_numpy(tokens)[:, None])[:, 0].double().numpy() for one in laws], axis=1)
    for number, weight in enumerate(weights):
        pooled = sum(float(share) * one.double() for share, one in zip(weight, laws, strict=True))
        normaliser = torch.as_tensor(pooled).logsumexp(dim=1).numpy()
        emissions[visible, number] = (picked @ weight - normaliser)[visible]
    return grid_posterior(emissions, np.asarray(weights), priors)
