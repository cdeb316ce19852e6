"""Networks in files: bounds of the sizes in a config, and weights that fit the config."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conservator.errors import ConservatorError

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
MAY_BE_ZERO = ("convolutions", "dropout", "memory", "reach")  # sizes of a network


def check_sizes(values: Mapping[str, Any], maxima: Mapping[str, float], path: Path) -> None:
    """Raise a ConservatorError unless the sizes of a network in the config at ``path`` are valid."""
    for name, maximum in maxima.items():
        value, minimum = values[name], 0 if name in MAY_BE_ZERO else 1
        types = (int, float) if isinstance(maximum, float) else (int,)
        if type(value) not in types or not minimum <= value <= maximum:
            raise ConservatorError(f"{path}: {name} must be a number from {minimum} to {maximum}, got {value!r}")
    step = 2 * values["heads"]
    if values["width"] % step:
        raise ConservatorError(
            f"{path}: width must be a multiple of twice the number of heads ({step}), got {values['width']}"
        )


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
