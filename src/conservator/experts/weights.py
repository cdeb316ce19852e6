"""Check that the weights in a file fit the network that a config describes."""

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def check_weights(weights: dict[str, Tensor], network: nn.Module, path: Path) -> dict[str, Tensor]:
    """Return the weights in float32; raise a ConservatorError unless they are finite and have the network's shapes.

    Args:
        weights: tensors by name, as read from ``path``.
        network: a network with the expected shapes, which may be on the meta device.
        path: file named in errors.
    """
    expected = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    checked = {}
    for key in expected.keys() | weights.keys():
        shape = tuple(weights[key].shape) if key in weights else "missing"
        expected_shape = expected.get(key, "no such tensor")
        if shape != expected_shape:
            raise ConservatorError(f"{path} does not fit {CONFIG}: {key} is {shape}, expected {expected_shape}")
        checked[key] = weights[key].float()
        # The sum is finite only if every element is.
        if not weights[key].is_floating_point() or not math.isfinite(checked[key].sum(dtype=torch.float64)):
            raise ConservatorError(f"{path}: {key} must be a floating-point tensor of finite values")
    return checked
