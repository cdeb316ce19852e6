"""Flow-matching experts on disk, in the layout of the hub: config.json, tokenizer.json and model.safetensors."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as format_safetensors

from conservator.errors import ConservatorError
from conservator.experts.flow.expert import FlowExpert, SharedBackbone
from conservator.experts.flow.network import SOURCES, FlowConfig, FlowNetwork
from conservator.experts.weights import CONFIG, TOKENIZER, WEIGHTS, check_sizes, set_weights
from conservator.system.files import make_folder, open_file, read_json, real_path, write_atomically
from conservator.vocabularies import BYTES, Vocabulary
from conservator.vocabularies.hf_tokenizer import load_tokens

MODEL_TYPE = "conservator_flow"
FREQUENCIES = "rotary_emb.inv_freq"
# Upper bounds of the sizes of a network, larger than any usable one. A config that exceeds one is rejected.
MAX_SIZES = {
    "vocab_size": 2**20,
    "context": 2**16,
    "width": 2**14,
    "layers": 2**8,
    "heads": 2**8,
    "conditioning": 2**14,
    "dropout": 0.9,
    "reach": 2**4,
}
# Bases in memory, by fingerprint, sizes, vocabulary and device.
_bases: WeakValueDictionary[tuple[object, ...], SharedBackbone] = WeakValueDictionary()


def save_flow(
    folder: Path, network: FlowNetwork, tokenizer: bytes | None, name: str, about: dict[str, Any] | None = None
) -> None:
    """Write a network with float16 weights to ``folder``; ``tokenizer`` is its tokenizer.json, None for bytes."""
    weights = {key: value.to("cpu", torch.float16).contiguous() for key, value in network.state_dict().items()}
    sizes = asdict(network.config)
    config = {
        "model_type": MODEL_TYPE,
        "name": name,
        "vocabulary": "bytes" if tokenizer is None else TOKENIZER,
        "vocab_size": sizes.pop("tokens"),
        "mask_token_id": network.config.mask,
        **sizes,
        "about": about or {},
    }
    make_folder(folder)
    write_atomically(folder / WEIGHTS, format_safetensors(weights))
    if tokenizer is not None:
        write_atomically(folder / TOKENIZER, tokenizer)
    write_atomically(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_flow(folder: Path, device: str | torch.device = "cpu") -> FlowExpert:
    """Load an expert that ``save_flow`` wrote, or an adapter; a base that is in memory is not loaded again."""
    config = read_flow_config(folder)
    if config["model_type"] != MODEL_TYPE:
        from conservator.experts.flow.adapters import load_adapter

        return load_adapter(folder, device)
    name = str(config.get("name") or real_path(folder).name)
    return FlowExpert(load_base(folder, device), name, about=config.get("about"))


def load_base(folder: Path, device: str | torch.device = "cpu") -> SharedBackbone:
    """Load the base in ``folder``, or return the one in memory with the same weights, sizes, tokens and device."""
    config = read_flow_config(folder)
    sizes = sizes_of(config, folder / CONFIG)
    fingerprint = base_fingerprint(folder)
    key = (fingerprint, sizes, str(config.get("vocabulary")), str(device))
    loaded = _bases.get(key)
    if loaded is not None:
        return loaded
    vocabulary: Vocabulary = BYTES
    if config.get("vocabulary") == TOKENIZER:
        vocabulary = load_tokens(folder / TOKENIZER, sizes.tokens)
    elif config.get("vocabulary") != "bytes":
        raise ConservatorError(
            f'{folder / CONFIG}: vocabulary must be "bytes" or "{TOKENIZER}", got {config.get("vocabulary")!r}'
        )
    base = SharedBackbone(read_network(folder, sizes, device), vocabulary, fingerprint)
    _bases[key] = base
    return base


def base_fingerprint(folder: Path) -> str:
    """Return the sha256 of the weights and the tokenizer of a base, which identifies it for its adapters."""
    digest = hashlib.sha256()
    for path in (folder / WEIGHTS, folder / TOKENIZER):
        if path.exists() or path.name == WEIGHTS:
            with open_file(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]
    return digest.hexdigest()


def read_network(folder: Path, sizes: FlowConfig, device: str | torch.device) -> FlowNetwork:
    """Load a network in float32."""
    path = folder / WEIGHTS
    try:
        with open_file(path):
            weights = load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    with torch.device("meta"):
        network = FlowNetwork(sizes)
    expected = FlowNetwork(FlowConfig(1, width=sizes.width, heads=sizes.heads, layers=0)).rotary_emb.inv_freq
    stored = weights.setdefault(FREQUENCIES, expected)
    set_weights(network, weights, path, device)
    if not torch.allclose(stored.float(), expected, rtol=1e-2, atol=1e-6):
        raise ConservatorError(f"{path}: {FREQUENCIES} must have the frequencies of base 10000")
    network.rotary_emb.inv_freq = expected.to(device)
    return network.eval().requires_grad_(False)


def is_flow(folder: Path) -> bool:
    """Whether the config in ``folder`` describes a flow-matching expert or an adapter."""
    try:
        read_flow_config(folder)
    except ConservatorError:
        return False
    return True


def read_flow_config(folder: Path) -> dict[str, Any]:
    """Read the ``config.json`` of a flow-matching expert or an adapter."""
    path = folder / CONFIG
    config = read_json(path)
    if not isinstance(config, dict) or not str(config.get("model_type", "")).startswith(MODEL_TYPE):
        raise ConservatorError(
            f"{path} does not describe a flow-matching expert: expected the model_type {MODEL_TYPE!r}"
        )
    return config


def sizes_of(config: dict[str, Any], path: Path) -> FlowConfig:
    """Return the sizes of the network that a config describes; raise a ConservatorError if they are invalid."""
    config = {"reach": FlowConfig.reach, "apart": FlowConfig.apart, **config}  # public models do not have them
    missing = [key for key in ("source", *MAX_SIZES) if key not in config]
    if missing:
        raise ConservatorError(f"{path} lacks the keys {', '.join(missing)}")
    if config["source"] not in SOURCES:
        raise ConservatorError(f"{path}: source must be one of {', '.join(SOURCES)}, got {config['source']!r}")
    if type(config["apart"]) is not bool or (config["apart"] and config["source"] != "uniform"):
        raise ConservatorError(
            f"{path}: apart must be a boolean, and false without a uniform source, got {config['apart']!r}"
        )
    check_sizes(config, MAX_SIZES, path)
    values = {key: config[key] for key in ("source", "apart", *MAX_SIZES)}
    sizes = FlowConfig(values.pop("vocab_size"), **values)
    if config.get("mask_token_id") != sizes.mask:
        raise ConservatorError(
            f"{path}: mask_token_id must be {sizes.mask} with a {sizes.source} source of {sizes.tokens} tokens, got "
            f"{config.get('mask_token_id')}"
        )
    return sizes
