"""Low-rank adapters (LoRA, by peft): experts that share a base and add a few small matrices to it.

The folder of an adapter has peft's two files, ``adapter_config.json`` and ``adapter_model.safetensors``, and a
``config.json`` with the folder and the fingerprint of its base.
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
from conservator.experts.flow.expert import FlowExpert, SharedBackbone
from conservator.experts.flow.folder import MODEL_TYPE, load_base, read_flow_config
from conservator.experts.flow.network import FlowNetwork
from conservator.experts.weights import CONFIG
from conservator.system.files import make_folder, read_file, read_json, real_path, write_atomically

ADAPTER_MODEL_TYPE = f"{MODEL_TYPE}_adapter"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TARGETS = r"blocks\.\d+\.(qw|kw|vw|attn_out|mlp\.[02])"  # adapted layers: attention and perceptrons of all blocks
MAX_WEIGHTS_BYTES = 2**31  # bytes: size of adapter_model.safetensors [safety limit]
MAX_RANK = 2**12  # rank: largest rank of an adapter [safety limit]
TRAINING = "in_training"  # name of the adapter in training
PREFIX = "base_model.model."  # prefix of the names of weights in the files of peft


def add_adapter(network: FlowNetwork, name: str, rank: int, alpha: int) -> None:
    """Add an adapter to a network in place; it is the identity until it is trained or loaded."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConservatorError(f"adapters need peft: pip install 'conservator[hf]' ({error})") from error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Already found a `peft_config`")  # several adapters are intended
        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=alpha, target_modules=TARGETS), network, name)


def start_adapter(base: SharedBackbone, rank: int, alpha: int) -> FlowNetwork:
    """Add a new adapter for training to a base, replacing the last one; return the network of the base."""
    with base.use(None) as network:
        if TRAINING in base.adapters:
            from peft.functional import delete_adapter

            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Adapter in_training was active")  # it is replaced below
                delete_adapter(network, TRAINING, prefix="lora_")
        add_adapter(network, TRAINING, rank, alpha)
        base.adapters.add(TRAINING)
        activate_adapter(network, TRAINING)
    return network


def activate_adapter(network: FlowNetwork, name: str | None) -> None:
    """Activate one adapter of a network, or none."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in network.modules():
        if isinstance(layer, BaseTunerLayer):
            layer.enable_adapters(name is not None)
            if name is not None:
                layer.set_adapter(name, inference_mode=name != TRAINING)


def adapter_weights(network: FlowNetwork, name: str) -> dict[str, Tensor]:
    """Return the weights of an adapter, by names without the name of the adapter."""
    from peft import get_peft_model_state_dict

    return dict(get_peft_model_state_dict(network, adapter_name=name))


def save_adapter(
    folder: Path, base: Path, network: FlowNetwork, settings: tuple[int, int, str], name: str, about: dict[str, Any]
) -> None:
    """Write the adapter in training, in float16.

    Args:
        folder: output folder.
        base: folder of the base.
        network: network of the base, with the adapter.
        settings: rank and alpha of the adapter, and fingerprint of the base.
        name: name of the expert.
        about: record of its training.
    """
    from peft import LoraConfig

    rank, alpha, fingerprint = settings
    trained = adapter_weights(network, TRAINING)
    weights = {PREFIX + key: value.to("cpu", torch.float16).contiguous() for key, value in trained.items()}
    make_folder(folder)
    base_folder = os.path.relpath(real_path(base), real_path(folder))
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=TARGETS, base_model_name_or_path=base_folder)
    config = {
        "model_type": ADAPTER_MODEL_TYPE,
        "name": name,
        "base": {"folder": base_folder, "fingerprint": fingerprint},
        "about": about,
    }
    write_atomically(folder / ADAPTER_WEIGHTS, format_safetensors(weights))
    for file, content in ((ADAPTER_CONFIG, lora.to_dict()), (CONFIG, config)):
        write_atomically(folder / file, json.dumps(content, indent=2, default=list) + "\n")


def load_adapter(folder: Path, device: str | torch.device = "cpu") -> FlowExpert:
    """Load an adapter, and its base unless it is in memory; raise a ConservatorError if the fingerprints differ."""
    config = read_flow_config(folder)
    reference = config.get("base")
    if (
        config["model_type"] != ADAPTER_MODEL_TYPE
        or not isinstance(reference, dict)
        or not {"folder", "fingerprint"} <= {*reference}
    ):
        raise ConservatorError(f"{folder / CONFIG} must have base.folder and base.fingerprint of an adapter")
    base_folder = real_path(folder / str(reference["folder"]))
    if not (base_folder / CONFIG).is_file():
        raise ConservatorError(
            f"the base of the adapter {folder} is not at {base_folder}; put the base with the fingerprint "
            f"{str(reference['fingerprint'])[:16]}... there"
        )
    base = load_base(base_folder, device)
    if base.fingerprint != reference["fingerprint"]:
        raise ConservatorError(
            f"the adapter {folder} was trained on another base than the one at {base_folder}: expected the fingerprint "
            f"{str(reference['fingerprint'])[:16]}..., got {base.fingerprint[:16]}..."
        )
    rank, alpha = read_lora_config(folder / ADAPTER_CONFIG)
    path = folder / ADAPTER_WEIGHTS
    data = read_file(path, MAX_WEIGHTS_BYTES)
    try:
        weights = {key.removeprefix(PREFIX): value.float() for key, value in parse_safetensors(data).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    fingerprint = hashlib.sha256(f"{base.fingerprint} {rank} {alpha} ".encode() + data).hexdigest()
    if fingerprint not in base.adapters:
        insert_adapter(base, fingerprint, (rank, alpha), weights, path)
    name = str(config.get("name") or real_path(folder).name)
    return FlowExpert(base, name, adapter=fingerprint, fingerprint=fingerprint, about=config.get("about"))


def insert_adapter(
    base: SharedBackbone, name: str, settings: tuple[int, int], weights: dict[str, Tensor], path: Path
) -> None:
    """Add an adapter with ``weights`` that were read from ``path`` to a base."""
    with torch.device("meta"):
        network = FlowNetwork(base.network.config)
        add_adapter(network, name, *settings)
    shapes = {key: value.shape for key, value in adapter_weights(network, name).items()}
    for key in shapes.keys() | weights.keys():
        shape, expected = weights[key].shape if key in weights else "missing", shapes.get(key, "no such tensor")
        if shape != expected:
            raise ConservatorError(
                f"{path} does not fit {ADAPTER_CONFIG} and the base: {key} is {shape}, expected {expected}"
            )
        if not weights[key].isfinite().all():
            raise ConservatorError(f"{path}: {key} must have finite values")
    from peft import set_peft_model_state_dict

    with base.use(None) as network:
        add_adapter(network, name, *settings)
        set_peft_model_state_dict(network, weights, adapter_name=name)
        base.adapters.add(name)


def read_lora_config(path: Path) -> tuple[int, int]:
    """Return rank and alpha from the config of peft; raise a ConservatorError for unsupported settings."""
    config = read_json(path)
    if not isinstance(config, dict) or not {"r", "lora_alpha"} <= {*config}:
        raise ConservatorError(f"{path} does not describe an adapter: expected r and lora_alpha")
    rank, alpha = config["r"], config["lora_alpha"]
    if config.get("peft_type") != "LORA" or config.get("target_modules") != TARGETS:
        raise ConservatorError(f"{path}: peft_type must be LORA and target_modules must be {TARGETS}")
    for key in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern", "layers_to_transform"):
        if config.get(key):
            raise ConservatorError(f"{path}: {key} is not supported, got {config[key]!r}")
    if type(rank) is not int or not 1 <= rank <= MAX_RANK or type(alpha) is not int or alpha < 1:
        raise ConservatorError(
            f"{path}: r must be an integer from 1 to {MAX_RANK} and lora_alpha a positive integer, got {rank!r} and "
            f"{alpha!r}"
        )
    return rank, alpha
