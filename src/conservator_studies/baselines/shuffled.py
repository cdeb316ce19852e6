"""Inferred weights at wrong positions, to measure how much accuracy depends on the positions of the weights."""

import torch

from conservator.errors import ConservatorError
from conservator.field import Composition, Inferred
from conservator_studies.baselines.setting import Setting


def within(setting: Setting) -> Inferred:
    """Inferred composition with the positions of each window in random order."""
    generator, ours = setting.generator(), setting.bayes.composition
    order = torch.rand(ours.state_probs.shape[:2], generator=generator).argsort(dim=-1)
    state_probs = ours.state_probs.gather(1, order[..., None].expand_as(ours.state_probs))
    return Inferred.given(Composition(state_probs, ours.weights), setting.bayes.cost)


def across(setting: Setting) -> Inferred:
    """Inferred composition of another window."""
    ours = setting.bayes.composition
    if len(ours.state_probs) < 2:
        raise ConservatorError(
            f"shuffling fields across windows needs at least two windows, got {len(ours.state_probs)}"
        )
    return Inferred.given(Composition(ours.state_probs.roll(1, dims=0), ours.weights), setting.bayes.cost)
