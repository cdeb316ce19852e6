"""Weights from a file: do they fit the network that a config describes?"""

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def check_weights(weights: dict[str, Tensor], network: nn.Module, path: Path) -> dict[str, Tensor]:
    """The weights in float32; raise a ConservatorError unless they have the network's names and shapes, and are finite.

    Args:
        weights: name -> weights, as read from ``path``.
        network: a network of the wanted shape, which may be on the meta device.
        path: what an error names.
    """
    expected = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    checked = {}
    for key in expected.keys() | weights.keys():
        found = tuple(weights[key].shape) if key in weights else "missing"
        wanted = expected.get(key, "no such weights")
        if found != wanted:
            raise ConservatorError(f"{path} does not fit {CONFIG}: {key} is {found}, expected {wanted}")
        checked[key] = weights[key].float()
        # The sum is finite only if every number is.
        if not weights[key].is_floating_point() or not math.isfinite(checked[key].sum(dtype=torch.float64)):
            raise ConservatorError(f"{path}: {key} holds what is not a finite number")
    return checked
