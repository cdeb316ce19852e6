"""The baselines, by the names that tables use; each takes a ``Setting`` and returns a field."""

from collections.abc import Callable

import torch

from conservator.errors import ConservatorError
from conservator.field.composition import Composition
from conservator.field.infer import Inferred, infer_by_ascent, infer_globally, infer_maximum
from conservator.studies.baselines import constant, routers
from conservator.studies.baselines.setting import Setting
from conservator.studies.restoration import given

__all__ = ["BASELINES", "Setting"]


def shuffled_within(setting: Setting) -> Inferred:
    """What we believe of a window with its positions in random order: the same weights, in the wrong places."""
    generator, ours = setting.generator(), setting.bayes.composition
    order = torch.rand(ours.share.shape[:2], generator=generator).argsort(dim=-1)
    share = ours.share.gather(1, order[..., None].expand_as(ours.share))
    return given(Composition(share, ours.weights), setting.bayes.cost)


def shuffled_across(setting: Setting) -> Inferred:
    """What we believe of another window."""
    ours = setting.bayes.composition
    if len(ours.share) < 2:
        raise ConservatorError("fields are shuffled across windows: it takes at least two")
    return given(Composition(ours.share.roll(1, dims=0), ours.weights), setting.bayes.cost)


def hard_label(setting: Setting) -> Inferred:
    """The expert of the true region: privileged, not an upper bound."""
    return given(torch.eye(len(setting.experts), dtype=torch.float64)[setting.labels])


BASELINES: dict[str, Callable[[Setting], Inferred]] = {
    "local_bayes": lambda setting: setting.bayes,
    "local_map": lambda setting: infer_maximum(setting.experts, setting.observation, setting.generator()),
    "local_eg": lambda setting: infer_by_ascent(
        setting.experts, setting.observation, setting.generator(), smoother=setting.smoother
    ),
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
