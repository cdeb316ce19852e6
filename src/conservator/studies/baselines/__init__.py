"""The baselines, by the names that tables use; each takes a ``Setting`` and returns a field."""

from collections.abc import Callable

import torch

from conservator.field.infer import Inferred, infer_by_ascent, infer_globally, infer_maximum
from conservator.studies.baselines import constant, routers
from conservator.studies.baselines.setting import Setting
from conservator.studies.restoration import given

__all__ = ["BASELINES", "Setting"]


def shuffled_within(setting: Setting) -> Inferred:
    """Our field with its positions in random order: the same weights, in the wrong places."""
    generator, (windows, length, _) = setting.generator(), setting.shape
    order = torch.rand(windows, length, generator=generator).argsort(dim=-1)
    return given(setting.bayes.field.gather(1, order[..., None].expand(setting.shape)))


def shuffled_across(setting: Setting) -> Inferred:
    """Our field of another window."""
    return given(setting.bayes.field.roll(1, dims=0))


def hard_label(setting: Setting) -> Inferred:
    """The expert of the true region: privileged, not an upper bound."""
    return given(torch.eye(len(setting.experts), dtype=torch.float64)[setting.labels])


BASELINES: dict[str, Callable[[Setting], Inferred]] = {
    "local_bayes": lambda setting: setting.bayes,
    "local_map": lambda setting: infer_maximum(setting.experts, setting.observation, setting.generator()),
    "local_eg": lambda setting: infer_by_ascent(setting.experts, setting.observation, setting.generator()),
    "hard_label": hard_label,
    "packllm_sim": constant.packllm_sim,
    "packllm_opt": constant.packllm_opt,
    "global": lambda setting: infer_globally(setting.experts, setting.observation, setting.generator()),
    "field_average": constant.field_average,
    "best_single_marginal": constant.best_single_marginal,
    "best_single_posterior": constant.best_single_posterior,
    "demix": lambda setting: routers.responsibilities(setting.plain_scores, setting),
    "demix_heldout": lambda setting: routers.responsibilities(setting.held_out_scores, setting),
    "raw_loss": lambda setting: routers.raw_loss(setting.plain_scores, setting),
    "raw_loss_heldout": lambda setting: routers.raw_loss(setting.held_out_scores, setting),
    "hmm": lambda setting: routers.markov(setting.plain_scores, setting),
    "hmm_heldout": lambda setting: routers.markov(setting.held_out_scores, setting),
    "equal": constant.equal,
    "shuffled_within": shuffled_within,
    "shuffled_across": shuffled_across,
}
