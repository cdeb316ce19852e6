"""The paper's Algorithm 1, window by window: local weights, and one weight a window by the same estimate."""

from dataclasses import replace

import torch

from conservator.field.cost import Cost
from conservator.field.infer import Inferred
from conservator.field.particles import ParticleSettings, infer_particles
from conservator.studies.baselines.setting import Setting
from conservator.studies.restoration import given


def local(setting: Setting) -> Inferred:
    """The paper's field."""
    return by_particles(setting, setting.particles)


def shared(setting: Setting) -> Inferred:
    """The paper's independent global weight: its own particles under its own weight, at every iteration."""
    return by_particles(setting, replace(setting.particles, shared=True))


def by_particles(setting: Setting, settings: ParticleSettings) -> Inferred:
    """Run Algorithm 1 on every window; a window's draws do not depend on how many there are."""
    fields, cost = [], Cost()
    for number, tokens in enumerate(setting.observation.tokens):
        one = setting.observation.channel.observe(tokens)
        generator = torch.Generator().manual_seed(1000 * setting.seed + number)
        found = infer_particles(setting.experts, one, settings, generator)
        fields.append(found.field)
        cost.add(found.cost)
    return given(torch.stack(fields), cost)
