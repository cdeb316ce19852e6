"""Local weights without the evidence correction (section "Local routers without the evidence correction").

Each router has two versions: on the plain scores, as in the paper, and on held-out scores, where a token is scored
while it is hidden from the experts.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from conservator.field import Inferred, posterior, simplex_grid, sticky
from conservator.reference import ascend
from conservator_studies.baselines.setting import Scores, Setting

JUMPS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of the hidden Markov model; the one of highest likelihood is taken


def inherit(scores: Tensor) -> Tensor:
    """Give each lost position of ``scores`` (N, L, m) the mean score of the nearest visible ones, on both sides."""
    filled = scores.clone()
    for window, rows in enumerate(scores):
        visible = (~rows[:, 0].isnan()).nonzero()[:, 0]
        if len(visible) == 0:
            filled[window] = 0.0
            continue
        lost = rows[:, 0].isnan().nonzero()[:, 0]
        distance = (lost[:, None] - visible).abs()
        nearest = distance == distance.min(dim=1, keepdim=True).values
        filled[window, lost] = (nearest.to(rows.dtype) @ rows[visible]) / nearest.sum(dim=1, keepdim=True)
    return filled


def responsibilities(scores: Scores, setting: Setting) -> Inferred:
    """DEMix: weights proportional to exp(-score) at every position, smoothed."""
    fields = torch.softmax(-inherit(scores.values), dim=-1)
    smoothed = [torch.from_numpy(setting.smoother(field.numpy()).field) for field in fields]
    return Inferred.given(torch.stack(smoothed), scores.cost)


def raw_loss(scores: Scores, setting: Setting) -> Inferred:
    """The paper's update and smoothing, with minus the score as the gradient: no prior term and no imputation."""
    fields = []
    for gradient in -scores.values.nan_to_num():
        shape = (len(gradient), len(setting.team))
        fields.append(ascend(partial(_same, gradient), shape, setting.iterations, setting.eta, setting.smoother)[0])
    return Inferred.given(torch.stack(fields), scores.cost)


def _same(gradient: Tensor, _: Tensor) -> Tensor:
    """A gradient that does not depend on the field."""
    return gradient


def markov(scores: Scores, setting: Setting) -> Inferred:
    """The posterior of a hidden Markov model: one state per expert, emissions exp(-score), symmetric transitions."""
    corners = simplex_grid(len(setting.team), 1)
    priors = [sticky(corners, jump) for jump in JUMPS]
    fields = []
    for rows in (-scores.values.nan_to_num()).numpy():
        fitted = [posterior(np.ascontiguousarray(rows), prior) for prior in priors]
        fields.append(max(fitted, key=lambda one: one[0])[1])
    return Inferred.given(torch.from_numpy(np.stack(fields)), scores.cost)
