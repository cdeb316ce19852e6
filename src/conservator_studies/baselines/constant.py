"""Weights that are the same at every position of a window."""

import torch
from torch import Tensor

from conservator.experts import Cost
from conservator.field import Composition, Inferred
from conservator.reference import denoising_score, draw_particles
from conservator_studies.baselines.setting import Setting

TEMPERATURE = 0.1  # nats, of PackLLM-sim
GRID = torch.linspace(0, 1, 21, dtype=torch.float64)  # of PackLLM-opt


def everywhere(weights: Tensor, setting: Setting, cost: Cost) -> Inferred:
    """One weight (N, m) for all positions of each window."""
    return Inferred.given(weights[:, None].expand(setting.shape).contiguous(), cost)


def equal(setting: Setting) -> Inferred:
    """The same weight for every expert."""
    return Inferred.given(torch.full(setting.shape, 1 / len(setting.team), dtype=torch.float64))


def shared_weight(setting: Setting) -> Inferred:
    """The posterior of one weight for the whole window."""
    return setting.shared


def packllm_sim(setting: Setting) -> Inferred:
    """PackLLM, softmax variant: weights proportional to exp(-mean score / T)."""
    scores = setting.plain_scores
    return everywhere(torch.softmax(-scores.mean() / TEMPERATURE, dim=-1), setting, scores.cost)


def packllm_opt(setting: Setting) -> Inferred:
    """PackLLM, greedy variant: add the experts one by one, the best score first, each with a weight by line search.

    A candidate weight is scored by the cross-entropy of the pool that the decoder uses, on the same noisings.
    """
    experts = len(setting.team)
    order = setting.plain_scores.mean().argsort(dim=-1, stable=True)
    corners = torch.eye(experts, dtype=torch.float64)
    weights = corners[order[:, 0]]
    for place in range(1, experts):
        newcomer = corners[order[:, place]]
        losses = torch.stack([pool_loss(setting, (1 - a) * weights + a * newcomer) for a in GRID])
        # Of equal losses take the last, which gives the newcomer the largest weight.
        best = len(GRID) - 1 - losses.flip(0).argmin(dim=0)
        share = GRID[best][:, None]
        weights = (1 - share) * weights + share * newcomer
    return everywhere(weights, setting, setting.noised.cost)


def pool_loss(setting: Setting, weights: Tensor) -> Tensor:
    """(N,) the mean loss of noised visible tokens under the pool with ``weights`` (N, m), one row for each window."""
    total, count = torch.zeros(2, len(weights), dtype=torch.float64)
    for found in setting.noised.predictions:
        pool = torch.log_softmax(torch.einsum("ni,inv->nv", weights[found.sequence].float(), found.log_probs), dim=-1)
        truth = setting.observation.tokens[found.sequence, found.position]
        total.index_add_(0, found.sequence, -pool.gather(-1, truth[:, None])[:, 0].double())
        count.index_add_(0, found.sequence, torch.ones(len(truth), dtype=torch.float64))
    mean: Tensor = total / count.clamp_min(1)
    return mean


def best_single_marginal(setting: Setting) -> Inferred:
    """The expert with the lowest mean score of visible tokens: marginal evidence under the mask channel."""
    corners = torch.eye(len(setting.team), dtype=torch.float64)
    scores = setting.plain_scores
    return everywhere(corners[scores.mean().argmin(dim=-1)], setting, scores.cost)


def best_single_posterior(setting: Setting) -> Inferred:
    """The expert that scores its own reconstructions best: a heuristic that leaves the free energy out."""
    windows, length, experts = setting.shape
    generator, settings = setting.generator(), setting.particles
    energies = torch.zeros(windows, experts, dtype=torch.float64)
    ones = torch.ones(length, 1, dtype=torch.float64)
    shape = (settings.particles, length)
    with setting.team.meter.measure() as spent:
        for window in range(windows):
            tokens = setting.observation.tokens[window].expand(shape)
            lost = setting.observation.lost[window].expand(shape)
            for number in range(experts):
                alone = setting.whole.alone(number)
                drawn = draw_particles(alone, ones, tokens, lost, settings.steps, generator)
                energies[window, number] = denoising_score(alone, drawn, settings.samples, generator).mean()
    corners = torch.eye(experts, dtype=torch.float64)
    return everywhere(corners[energies.argmin(dim=-1)], setting, spent.cost)


def field_average(setting: Setting) -> Inferred:
    """The mean of our composition over a window, at all of its positions: the same weights on average."""
    ours = setting.bayes.composition
    state_probs = ours.state_probs.mean(dim=1, keepdim=True).expand_as(ours.state_probs)
    return Inferred.given(Composition(state_probs, ours.weights), setting.bayes.cost)
