"""Weights that are the same at every position of a window."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from conservator.experts import Cost
from conservator.field import Composition, Inferred
from conservator.reference import denoising_score, draw_particles
from conservator_studies.baselines.setting import Setting

TEMPERATURE = 0.1  # nats: softmax temperature of PackLLM-sim [definition]
GRID = torch.linspace(0, 1, 21, dtype=torch.float64)  # weight: line search of PackLLM-opt [untuned]


def everywhere(weights: Tensor, setting: Setting, cost: Cost) -> Inferred:
    """Use one weight vector per window, ``weights`` (N, m), at all of its positions."""
    return Inferred.given(weights[:, None].expand(setting.shape).contiguous(), cost)


def equal(setting: Setting) -> Inferred:
    """Equal weights of all experts."""
    return Inferred.given(torch.full(setting.shape, 1 / len(setting.team), dtype=torch.float64))


def packllm_sim(setting: Setting) -> Inferred:
    """PackLLM, softmax variant: weights proportional to exp(-mean score / T)."""
    scores = setting.plain_scores
    return everywhere(torch.softmax(-scores.mean() / TEMPERATURE, dim=-1), setting, scores.cost)


def packllm_opt(setting: Setting) -> Inferred:
    """PackLLM, greedy variant: add the experts in the order of their scores, each with a weight by line search.

    Candidate weights are scored by the cross-entropy of the decoder's logarithmic pool on the same noised tokens.
    """
    order = setting.plain_scores.mean().argsort(dim=-1, stable=True)
    weights = greedy_weights(order, partial(pool_loss, setting))
    return everywhere(weights, setting, setting.noised_predictions.cost)


def greedy_weights(order: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Add experts in ``order`` (N, m), each by line search; ``loss`` (N,) is a function of weights (N, m)."""
    corners = torch.eye(order.shape[1], dtype=torch.float64)
    weights = corners[order[:, 0]]
    for column in order.T[1:]:
        added = corners[column]
        losses = torch.stack([loss((1 - a) * weights + a * added) for a in GRID])
        # Ties are broken towards the largest weight of the added expert.
        best = len(GRID) - 1 - losses.flip(0).argmin(dim=0)
        added_weight = GRID[best][:, None]
        weights = (1 - added_weight) * weights + added_weight * added
    return weights


def pool_loss(setting: Setting, weights: Tensor) -> Tensor:
    """Mean loss (N,) of noised visible tokens under the pool with ``weights`` (N, m), one row per window."""
    total, count = torch.zeros(2, len(weights), dtype=torch.float64)
    for prediction in setting.noised_predictions.predictions:
        window_weights = weights[prediction.sequence].float()
        pool = torch.log_softmax(torch.einsum("ni,inv->nv", window_weights, prediction.log_probs), dim=-1)
        truth = setting.observation.tokens[prediction.sequence, prediction.position]
        total.index_add_(0, prediction.sequence, -pool.gather(-1, truth[:, None])[:, 0].double())
        count.index_add_(0, prediction.sequence, torch.ones(len(truth), dtype=torch.float64))
    mean: Tensor = total / count.clamp_min(1)
    return mean


def best_single_marginal(setting: Setting) -> Inferred:
    """Expert with the lowest mean score on visible tokens: marginal evidence under the mask channel."""
    corners = torch.eye(len(setting.team), dtype=torch.float64)
    scores = setting.plain_scores
    return everywhere(corners[scores.mean().argmin(dim=-1)], setting, scores.cost)


def best_single_posterior(setting: Setting) -> Inferred:
    """Expert with the lowest score on its own reconstructions: a heuristic that ignores the free energy."""
    windows, length, experts = setting.shape
    generator, settings = setting.generator(), setting.particles
    scores = torch.zeros(windows, experts, dtype=torch.float64)
    ones = torch.ones(length, 1, dtype=torch.float64)
    shape = (settings.particles, length)
    with setting.team.meter.measure() as spent:
        for window in range(windows):
            tokens = setting.observation.tokens[window].expand(shape)
            lost = setting.observation.lost[window].expand(shape)
            for number in range(experts):
                expert = setting.chunked_team.subset([number])
                drawn = draw_particles(expert, ones, tokens, lost, settings.steps, generator)
                scores[window, number] = denoising_score(expert, drawn, settings.samples, generator).mean()
    corners = torch.eye(experts, dtype=torch.float64)
    return everywhere(corners[scores.argmin(dim=-1)], setting, spent.cost)


def field_average(setting: Setting) -> Inferred:
    """Mean of the inferred composition over each window, used at all of its positions."""
    ours = setting.bayes.composition
    state_probs = ours.state_probs.mean(dim=1, keepdim=True).expand_as(ours.state_probs)
    return Inferred.given(Composition(state_probs, ours.weights), setting.bayes.cost)
