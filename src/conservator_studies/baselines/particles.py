"""The paper's Algorithm 1, window by window: local weights, and one weight per window by the same estimate."""

from dataclasses import replace

import torch

from conservator.experts import Cost
from conservator.field import Inferred, Particles
from conservator_studies.baselines.setting import Setting


def local(setting: Setting) -> Inferred:
    """The paper's field."""
    return by_particles(setting, setting.particles)


def shared(setting: Setting) -> Inferred:
    """The paper's independent global weight: its own particles under its own weight, at every iteration."""
    return by_particles(setting, replace(setting.particles, shared=True))


def by_particles(setting: Setting, engine: Particles) -> Inferred:
    """Run Algorithm 1 on every window; the random draws for a window do not depend on the number of windows."""
    fields, cost = [], Cost()
    for number in range(len(setting.observation.tokens)):
        generator = torch.Generator().manual_seed(1000 * setting.seed + number)
        found = engine(setting.team, setting.observation[number : number + 1], generator)
        fields.append(found.field)
        cost += found.cost
    return Inferred.given(torch.cat(fields), cost)
