"""A single expert for all positions: a domain expert, or a generalist that was trained on all domains."""

from collections.abc import Sequence

import torch

from conservator.errors import ConservatorError
from conservator.experts import Expert, Team
from conservator.field import Inferred
from conservator_studies.baselines.setting import Baseline, Composed, Setting


def single(name: str) -> Baseline:
    """Baseline with only the domain expert ``name``."""
    return lambda setting: single_expert(name, setting.team.experts, setting)


def generalist(name: str) -> Baseline:
    """Baseline with only the generalist ``name``."""
    return lambda setting: single_expert(name, setting.generalists, setting)


def single_expert(name: str, experts: Sequence[Expert], setting: Setting) -> Composed:
    """Use the expert ``name`` of ``experts`` with weight 1 everywhere."""
    chosen = [expert for expert in experts if expert.spec.name == name]
    if not chosen:
        known = ", ".join(expert.spec.name for expert in experts) or "none"
        raise ConservatorError(f"no expert {name!r}; available: {known}")
    ones = torch.ones(*setting.labels.shape, 1, dtype=torch.float64)
    return Composed(Inferred.given(ones), Team(chosen))
