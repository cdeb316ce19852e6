"""Weights that are the same at every position of a window."""

import torch
from torch import Tensor

from conservator.field.composition import Composition
from conservator.field.cost import Cost, count
from conservator.field.denoising import denoising_score
from conservator.field.infer import Inferred
from conservator.field.particles import draw_particles
from conservator.studies.baselines.setting import Setting
from conservator.studies.restoration import given

TEMPERATURE = 0.1  # nats, of PackLLM-sim
GRID = torch.linspace(0, 1, 21, dtype=torch.float64)  # of PackLLM-opt


def everywhere(weights: Tensor, setting: Setting, cost: Cost) -> Inferred:
    """One weight (N, m) for all positions of each window."""
    return given(weights[:, None].expand(setting.shape).contiguous(), cost)


def equal(setting: Setting) -> Inferred:
    """The same weight for every expert."""
    return given(torch.full(setting.shape, 1 / len(setting.experts), dtype=torch.float64))


def packllm_sim(setting: Setting) -> Inferred:
    """PackLLM, softmax variant: weights proportional to exp(-mean score / T)."""
    scores = setting.plain_scores
    return everywhere(torch.softmax(-scores.mean() / TEMPERATURE, dim=-1), setting, scores.cost)


def packllm_opt(setting: Setting) -> Inferred:
    """PackLLM, greedy variant: in the order of their scores, mix in each next expert by a line search.

    A candidate is scored by the cross-entropy of the pool that the decoder uses, on the same noisings.
    """
    experts = len(setting.experts)
    order = setting.plain_scores.mean().argsort(dim=-1, stable=True)
    corners = torch.eye(experts, dtype=torch.float64)
    weights = corners[order[:, 0]]
    for place in range(1, experts):
        newcomer = corners[order[:, place]]
        losses = torch.stack([pool_loss(setting, (1 - a) * weights + a * newcomer) for a in GRID])
        # Ties go to the newcomer: the last of the smallest.
        best = len(GRID) - 1 - losses.flip(0).argmin(dim=0)
        share = GRID[best][:, None]
        weights = (1 - share) * weights + share * newcomer
    return everywhere(weights, setting, setting.noised.cost)


def pool_loss(setting: Setting, weights: Tensor) -> Tensor:
    """(N,) the mean loss of noised visible tokens under the pool at one weight (N, m) a window."""
    total, count = torch.zeros(2, len(weights), dtype=torch.float64)
    for said in setting.noised.said:
        pool = torch.log_softmax(torch.einsum("ni,inv->nv", weights[said.sequence].float(), said.log_probs), dim=-1)
        truth = setting.observation.tokens[said.sequence, said.position]
        total.index_add_(0, said.sequence, -pool.gather(-1, truth[:, None])[:, 0].double())
        count.index_add_(0, said.sequence, torch.ones(len(truth), dtype=torch.float64))
    mean: Tensor = total / count.clamp_min(1)
    return mean


def best_single_marginal(setting: Setting) -> Inferred:
    """The expert with the lowest mean score of visible tokens: marginal evidence under the mask channel."""
    corners = torch.eye(len(setting.experts), dtype=torch.float64)
    scores = setting.plain_scores
    return everywhere(corners[scores.mean().argmin(dim=-1)], setting, scores.cost)


def best_single_posterior(setting: Setting) -> Inferred:
    """The expert that scores its own reconstructions best: a heuristic that leaves the free energy out."""
    windows, length, experts = setting.shape
    generator, settings = setting.generator(), setting.particles
    energies, cost = torch.zeros(windows, experts, dtype=torch.float64), Cost()
    counted = count(setting.experts, cost)
    alone = torch.ones(length, 1, dtype=torch.float64)
    shape = (settings.particles, length)
    with cost.timed():
        for window in range(windows):
            tokens = setting.observation.tokens[window].expand(shape)
            hidden = setting.observation.hidden[window].expand(shape)
            for number, expert in enumerate(counted):
                drawn = draw_particles([expert], alone, tokens, hidden, settings.steps, generator)
                energies[window, number] = denoising_score(expert, drawn, settings.samples, generator).mean()
    corners = torch.eye(experts, dtype=torch.float64)
    return everywhere(corners[energies.argmin(dim=-1)], setting, cost)


def field_average(setting: Setting) -> Inferred:
    """The mean of what we believe of a window, at all of its positions: the same experts, without where."""
    ours = setting.bayes.composition
    share = ours.share.mean(dim=1, keepdim=True).expand_as(ours.share)
    return given(Composition(share, ours.weights), setting.bayes.cost)
