"""Inferred weights at wrong positions, to measure how much accuracy depends on the positions of the weights."""

import torch

from conservator.errors import ConservatorError
from conservator.field import Composition, Inferred
from conservator_studies.baselines.setting import Setting


def within(setting: Setting) -> Inferred:
    """Inferred composition with the positions of each window in random order."""
    generator, ours = setting.generator(), setting.bayes.composition
    order = torch.rand(ours.share.shape[:2], generator=generator).argsort(dim=-1)
    share = ours.share.gather(1, order[..., None].expand_as(ours.share))
    return Inferred.given(Composition(share, ours.weights), setting.bayes.cost)


def across(setting: Setting) -> Inferred:
    """Inferred composition of another window."""
    ours = setting.bayes.composition
    if len(ours.share) < 2:
        raise ConservatorError(f"shuffling fields across windows needs at least two windows, got {len(ours.share)}")
    return Inferred.given(Composition(ours.share.roll(1, dims=0), ours.weights), setting.bayes.cost)
