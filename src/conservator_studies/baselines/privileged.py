"""Router with access to the true regions: privileged, but not an upper bound."""

import torch

from conservator.field import Inferred
from conservator_studies.baselines.setting import Setting


def hard_label(setting: Setting) -> Inferred:
    """Weight 1 for the expert of the true region."""
    return Inferred.given(torch.eye(len(setting.team), dtype=torch.float64)[setting.labels])
