"""The field over causal experts: the evidence is how each predicts the visible tokens from their left context."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.field.grid_posterior import GridPosterior, grid_posterior
from conservator.field.weight_grid import MarkovPrior, simplex_grid

RESOLUTION = 10  # grid steps: the weights of the grid are multiples of 1/RESOLUTION [untuned]


def infer_causal_field(
    log_probs: Sequence[Tensor],
    tokens: NDArray[np.int64],
    visible: NDArray[np.bool_],
    priors: Sequence[MarkovPrior] | None = None,
) -> GridPosterior:
    """Compute the posterior of the field over m causal experts, given the visible tokens of a text.

        e_l(s) = log pi_{w_s}(x_l | x_<l),   with the pool pi_w(v) proportional to prod_i q_i(v | x_<l)^{w_i}

    Every position is predicted from the positions before it, so the evidence of a composition is an exact chain rule.
    Lost tokens in the left context are replaced by their best guess.

    Args:
        log_probs: (L, V) log q_i(x_l = v | x_<l) of each expert.
        tokens: (L,) the text, with the best guess at lost positions.
        visible: (L,) True where a token is known.
        priors: candidate priors; the prior with the highest evidence is used. None for the default priors.
    """
    weights = simplex_grid(len(log_probs), RESOLUTION)
    emissions = np.zeros((len(tokens), len(weights)))
    index = torch.from_numpy(tokens)[:, None]
    observed = np.stack([rows.gather(1, index)[:, 0].double().numpy() for rows in log_probs], axis=1)
    for state, weight in enumerate(weights):
        pooled = sum(
            float(expert_weight) * rows.double() for expert_weight, rows in zip(weight, log_probs, strict=True)
        )
        normaliser = torch.as_tensor(pooled).logsumexp(dim=1).numpy()
        emissions[visible, state] = (observed @ weight - normaliser)[visible]
    return grid_posterior(emissions, np.asarray(weights), priors)
