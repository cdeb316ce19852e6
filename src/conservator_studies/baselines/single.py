"""One expert for everything: one of the domain experts, or a generalist that was trained on all domains."""

from collections.abc import Sequence

import torch

from conservator.errors import ConservatorError
from conservator.experts import Expert, Team
from conservator.field import Inferred
from conservator_studies.baselines.composed import Baseline, Composed
from conservator_studies.baselines.setting import Setting


def single(name: str) -> Baseline:
    """The domain expert of that name, alone."""
    return lambda setting: alone(name, setting.team.experts, setting)


def generalist(name: str) -> Baseline:
    """The generalist of that name."""
    return lambda setting: alone(name, setting.generalists, setting)


def alone(name: str, among: Sequence[Expert], setting: Setting) -> Composed:
    """A single expert with a field of ones."""
    chosen = [expert for expert in among if expert.spec.name == name]
    if not chosen:
        known = ", ".join(expert.spec.name for expert in among) or "none"
        raise ConservatorError(f"no expert {name!r} to stand alone; there are: {known}")
    ones = torch.ones(*setting.labels.shape, 1, dtype=torch.float64)
    return Composed(Inferred.given(ones), Team(chosen))
