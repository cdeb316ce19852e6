"""Local weights without the evidence correction (section "Local routers without the evidence correction").

Each router has two versions: with plain scores, as in the paper, and with held-out scores, where a token is hidden from
the experts when it is scored.
"""

import numpy as np
import torch
from torch import Tensor

from conservator.field import Inferred, posterior, simplex_grid, sticky
from conservator.reference import ascend
from conservator_studies.baselines.setting import ExpertScores, Setting

# probability: candidate transition probabilities of the hidden Markov model; maximum likelihood selects one [untuned]
JUMP_PROBS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def inherit(scores: Tensor) -> Tensor:
    """Fill lost positions of ``scores`` (N, L, m) with the mean score of the nearest visible positions."""
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


def responsibilities(scores: ExpertScores, setting: Setting) -> Inferred:
    """DEMix: smoothed weights proportional to exp(-score) at every position."""
    fields = torch.softmax(-inherit(scores.values), dim=-1)
    smoothed = [torch.from_numpy(setting.smoother(field.numpy()).field) for field in fields]
    return Inferred.given(torch.stack(smoothed), scores.cost)


def raw_loss(scores: ExpertScores, setting: Setting) -> Inferred:
    """The paper's update and smoothing, with minus the score as the gradient: no prior term and no imputation."""

    def ascend_by(gradient: Tensor) -> Tensor:
        shape = (len(gradient), len(setting.team))
        return ascend(lambda _: gradient, shape, setting.iterations, setting.eta, setting.smoother)[0]

    fields = [ascend_by(gradient) for gradient in -scores.values.nan_to_num()]
    return Inferred.given(torch.stack(fields), scores.cost)


def markov(scores: ExpertScores, setting: Setting) -> Inferred:
    """Posterior of a hidden Markov model: one state per expert, emissions exp(-score), symmetric transitions."""
    corners = simplex_grid(len(setting.team), 1)
    priors = [sticky(corners, jump) for jump in JUMP_PROBS]
    fields = []
    for rows in (-scores.values.nan_to_num()).numpy():
        posteriors = [posterior(np.ascontiguousarray(rows), prior) for prior in priors]
        fields.append(max(posteriors, key=lambda fitted: fitted[0])[1])
    return Inferred.given(torch.from_numpy(np.stack(fields)), scores.cost)


def hard_label(setting: Setting) -> Inferred:
    """Weight 1 for the expert of the true region: privileged, but not an upper bound."""
    return Inferred.given(torch.eye(len(setting.team), dtype=torch.float64)[setting.labels])
