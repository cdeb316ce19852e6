"""Our weights in the wrong places: what is left of a field without its where."""

import torch

from conservator.errors import ConservatorError
from conservator.field.composition import Composition
from conservator.field.infer import Inferred
from conservator.studies.baselines.setting import Setting
from conservator.studies.restoration import given


def within(setting: Setting) -> Inferred:
    """What we believe of a window with its positions in random order: the same weights, in the wrong places."""
    generator, ours = setting.generator(), setting.bayes.composition
    order = torch.rand(ours.share.shape[:2], generator=generator).argsort(dim=-1)
    share = ours.share.gather(1, order[..., None].expand_as(ours.share))
    return given(Composition(share, ours.weights), setting.bayes.cost)


def across(setting: Setting) -> Inferred:
    """What we believe of another window."""
    ours = setting.bayes.composition
    if len(ours.share) < 2:
        raise ConservatorError("fields are shuffled across windows: it takes at least two")
    return given(Composition(ours.share.roll(1, dims=0), ours.weights), setting.bayes.cost)
