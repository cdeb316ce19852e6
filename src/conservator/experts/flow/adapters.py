"""Low-rank adapters (LoRA, by peft): experts that are a few small matrices beside a base that they share.

The folder of an adapter has peft's two files, ``adapter_config.json`` and ``adapter_model.safetensors``, and a
``config.json`` that names its base: where it is, and its fingerprint.
"""

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.flow.expert import Base, FlowExpert
from conservator.experts.flow.folder import KIND, load_base, read_flow_config
from conservator.experts.flow.network import FlowNetwork
from conservator.experts.weights import CONFIG
from conservator.system.files import make_folder, read_file, read_json, real_path, write_atomically

ADAPTER_KIND = f"{KIND}_adapter"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TARGETS = r"blocks\.\d+\.(qw|kw|vw|attn_out|mlp\.[02])"  # what is adapted: attention and perceptrons of all blocks
LARGEST = 2**31  # bytes of weights that are read at most
TRAINING = "in_training"  # the adapter that is trained, in memory
PREFIX = "base_model.model."  # that peft puts before the names of weights in its files


def add_adapter(network: FlowNetwork, name: str, rank: int, alpha: int) -> None:
    """Put an adapter into a network, which it leaves as it is until it is trained or loaded; no weight is copied."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConservatorError(f"adapters need peft: pip install 'conservator[hf]' ({error})") from error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Already found a `peft_config`")  # several adapters are what is wanted
        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=alpha, target_modules=TARGETS), network, name)


def start_adapter(base: Base, rank: int, alpha: int) -> FlowNetwork:
    """Put a new adapter into a base, to train it, instead of the last that was trained; return the base's network."""
    with base.use(None) as network:
        if TRAINING in base.adapters:
            from peft.functional import delete_adapter

            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Adapter in_training was active")  # the next one takes its place
                delete_adapter(network, TRAINING, prefix="lora_")
        add_adapter(network, TRAINING, rank, alpha)
        base.adapters.add(TRAINING)
        switch(network, TRAINING)
    return network


def switch(network: FlowNetwork, name: str | None) -> None:
    """Put one adapter of a network to work, or none."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in network.modules():
        if isinstance(layer, BaseTunerLayer):
            layer.enable_adapters(name is not None)
            if name is not None:
                layer.set_adapter(name, inference_mode=name != TRAINING)


def adapter_weights(network: FlowNetwork, name: str) -> dict[str, Tensor]:
    """The weights of an adapter, by their names without its own."""
    from peft import get_peft_model_state_dict

    return dict(get_peft_model_state_dict(network, adapter_name=name))


def save_adapter(
    folder: Path, base: Path, network: FlowNetwork, settings: tuple[int, int, str], name: str, about: dict[str, Any]
) -> None:
    """Write the adapter that is in training, in float16.

    Args:
        folder: where to.
        base: the folder of the base.
        network: the base's network, with the adapter.
        settings: rank and alpha of the adapter, and the fingerprint of the base.
        name: the expert's name.
        about: what its training recorded.
    """
    from peft import LoraConfig

    rank, alpha, fingerprint = settings
    found = adapter_weights(network, TRAINING)
    weights = {PREFIX + key: value.to("cpu", torch.float16).contiguous() for key, value in found.items()}
    make_folder(folder)
    where = os.path.relpath(real_path(base), real_path(folder))
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=TARGETS, base_model_name_or_path=where)
    config = {
        "model_type": ADAPTER_KIND,
        "name": name,
        "base": {"folder": where, "fingerprint": fingerprint},
        "about": about,
    }
    write_atomically(folder / ADAPTER_WEIGHTS, format_safetensors(weights))
    described = dict(lora.to_dict())
    write_atomically(folder / ADAPTER_CONFIG, (json.dumps(described, indent=2, default=list) + "\n").encode())
    write_atomically(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_adapter(folder: Path, device: str | torch.device = "cpu") -> FlowExpert:
    """Read an adapter, and its base unless that is in memory; a base with another fingerprint is refused."""
    config = read_flow_config(folder)
    named = config.get("base")
    if config["model_type"] != ADAPTER_KIND or not isinstance(named, dict) or not {"folder", "fingerprint"} <= {*named}:
        raise ConservatorError(f"{folder / CONFIG} does not name the base of an adapter: its folder and fingerprint")
    where = real_path(folder / str(named["folder"]))
    if not (where / CONFIG).is_file():
        raise ConservatorError(
            f"the base of the adapter {folder} is not at {where}; put it there: its fingerprint begins with "
            f"{str(named['fingerprint'])[:16]}"
        )
    base = load_base(where, device)
    if base.fingerprint != named["fingerprint"]:
        raise ConservatorError(
            f"the adapter {folder} was trained on another base than the one at {where}: the fingerprint of its own "
            f"begins with {str(named['fingerprint'])[:16]}, not {base.fingerprint[:16]}"
        )
    rank, alpha = read_settings(folder / ADAPTER_CONFIG)
    path = folder / ADAPTER_WEIGHTS
    data = read_file(path, LARGEST)
    try:
        weights = {key.removeprefix(PREFIX): value.float() for key, value in parse_safetensors(data).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    fingerprint = hashlib.sha256(f"{base.fingerprint} {rank} {alpha} ".encode() + data).hexdigest()
    if fingerprint not in base.adapters:
        place_adapter(base, fingerprint, (rank, alpha), weights, path)
    name = str(config.get("name") or real_path(folder).name)
    return FlowExpert(base, name, adapter=fingerprint, fingerprint=fingerprint, about=config.get("about"))


def place_adapter(base: Base, name: str, settings: tuple[int, int], weights: dict[str, Tensor], path: Path) -> None:
    """Put an adapter with its ``weights``, which were read from ``path``, into a base."""
    shapes = {f"{key}.{part}.weight": shape for key, pair in adapted(base, settings[0]).items() for part, shape in pair}
    for key in shapes.keys() | weights.keys():
        found, wanted = weights[key].shape if key in weights else "missing", shapes.get(key, "no such weights")
        if found != wanted:
            raise ConservatorError(f"{path} does not fit {ADAPTER_CONFIG} and the base: {key} is {found}, not {wanted}")
        if not weights[key].isfinite().all():
            raise ConservatorError(f"{path}: {key} holds what is not a finite number")
    from peft import set_peft_model_state_dict

    with base.use(None) as network:
        add_adapter(network, name, *settings)
        set_peft_model_state_dict(network, weights, adapter_name=name)
        base.adapters.add(name)


def adapted(base: Base, rank: int) -> dict[str, list[tuple[str, torch.Size]]]:
    """The names of the layers that an adapter changes, with the shapes of its two matrices there."""
    width, layers = base.network.config.width, base.network.config.layers
    sizes = {f"{one}w": (width, width) for one in "qkv"}
    sizes |= {"attn_out": (width, width), "mlp.0": (width, 4 * width), "mlp.2": (4 * width, width)}
    return {
        f"blocks.{number}.{name}": [("lora_A", torch.Size([rank, inputs])), ("lora_B", torch.Size([outputs, rank]))]
        for number in range(layers)
        for name, (inputs, outputs) in sizes.items()
    }


def read_settings(path: Path) -> tuple[int, int]:
    """Rank and alpha, from peft's config; what else it may say is refused where it would change the adapter."""
    config = read_json(path)
    if not isinstance(config, dict) or not {"r", "lora_alpha"} <= {*config}:
        raise ConservatorError(f"{path} does not describe an adapter: expected r and lora_alpha")
    rank, alpha = config["r"], config["lora_alpha"]
    if config.get("peft_type") != "LORA" or config.get("target_modules") != TARGETS:
        raise ConservatorError(f"{path}: accepted is LORA of the layers {TARGETS}")
    for key in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "layers_to_transform"):
        if config.get(key):
            raise ConservatorError(f"{path}: {key} is {config[key]!r}; accepted: none")
    if type(rank) is not int or not 1 <= rank <= 2**12 or type(alpha) is not int or alpha < 1:
        raise ConservatorError(f"{path}: r is {rank!r} and lora_alpha {alpha!r}; expected whole numbers, at most 4096")
    return rank, alpha
