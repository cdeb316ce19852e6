"""Load the weights in a file into the network that a config describes."""

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def set_weights(network: nn.Module, weights: dict[str, Tensor], path: Path, device: str | torch.device) -> None:
    """Set the weights of a network, in float32; raise a ConservatorError unless they are finite and have its shapes.

    Args:
        network: a network with the expected shapes, which may be on the meta device.
        weights: tensors by name, as read from ``path``.
        path: file named in errors.
        device: the device of the weights.
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
    try:
        on_device = {key: value.to(device) for key, value in checked.items()}
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"device {str(device)!r} is not available: {str(error).splitlines()[0]}") from error
    network.load_state_dict(on_device, assign=True)
