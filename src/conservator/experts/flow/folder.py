"""A flow-matching expert on disk, in the hub's layout: ``config.json``, ``tokenizer.json``, ``model.safetensors``."""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as format_safetensors

from conservator.errors import ConservatorError
from conservator.experts.flow.expert import Base, FlowExpert
from conservator.experts.flow.network import SOURCES, FlowConfig, FlowNetwork
from conservator.experts.weights import CONFIG, WEIGHTS, check_weights
from conservator.system.files import make_folder, open_file, read_json, real_path, write_atomically
from conservator.vocabularies import BYTES, Vocabulary
from conservator.vocabularies.hf_tokenizer import load_tokens

KIND = "conservator_flow"
TOKENIZER = "tokenizer.json"
FREQUENCIES = "rotary_emb.inv_freq"
# Upper bounds of the sizes of a network, larger than any usable one. A config that exceeds one is refused.
BOUNDS = FlowConfig(2**20, "", 2**16, 2**14, 2**8, 2**8, 2**14, 0.9, 2**4)
_bases: WeakValueDictionary[tuple[object, ...], Base] = WeakValueDictionary()  # those in memory, by what makes them


def save_flow(
    folder: Path, network: FlowNetwork, tokenizer: bytes | None, name: str, about: dict[str, Any] | None = None
) -> None:
    """Write a network to ``folder``, its weights in float16; ``tokenizer`` is its tokenizer.json, None for bytes."""
    weights = {key: value.to("cpu", torch.float16).contiguous() for key, value in network.state_dict().items()}
    sizes = asdict(network.config)
    config = {
        "model_type": KIND,
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
    """Read an expert that ``save_flow`` wrote, or an adapter of one; what is in memory already is not read again."""
    config = read_flow_config(folder)
    if config["model_type"] != KIND:
        from conservator.experts.flow.adapters import load_adapter

        return load_adapter(folder, device)
    name = str(config.get("name") or real_path(folder).name)
    return FlowExpert(load_base(folder, device), name, about=config.get("about"))


def load_base(folder: Path, device: str | torch.device = "cpu") -> Base:
    """The base in ``folder``; the one that is in memory if it has the same weights, sizes, tokens and device."""
    config = read_flow_config(folder)
    sizes = sizes_of(config, folder / CONFIG)
    fingerprint = base_fingerprint(folder)
    key = (fingerprint, sizes, str(config.get("vocabulary")), str(device))
    known = _bases.get(key)
    if known is not None:
        return known
    vocabulary: Vocabulary = BYTES
    if config.get("vocabulary") == TOKENIZER:
        vocabulary = load_tokens(folder / TOKENIZER, sizes.tokens)
    elif config.get("vocabulary") != "bytes":
        raise ConservatorError(f'{folder / CONFIG}: the vocabulary must be "bytes" or "{TOKENIZER}"')
    base = Base(read_network(folder, sizes, device), vocabulary, fingerprint)
    _bases[key] = base
    return base


def base_fingerprint(folder: Path) -> str:
    """The sha256 of the weights and the tokenizer of a base: what an adapter was trained on."""
    digest = hashlib.sha256()
    for path in (folder / WEIGHTS, folder / TOKENIZER):
        if path.exists() or path.name == WEIGHTS:
            with open_file(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]
    return digest.hexdigest()


def read_network(folder: Path, sizes: FlowConfig, device: str | torch.device) -> FlowNetwork:
    """Read the weights of a network, in float32."""
    path = folder / WEIGHTS
    try:
        with open_file(path):
            weights = load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    with torch.device("meta"):
        network = FlowNetwork(sizes)
    expected = FlowNetwork(FlowConfig(1, width=sizes.width, heads=sizes.heads, layers=0)).rotary_emb.inv_freq
    given = weights.setdefault(FREQUENCIES, expected)
    weights = check_weights(weights, network, path)
    if not torch.allclose(given.float(), expected, rtol=1e-2, atol=1e-6):
        raise ConservatorError(f"{path}: {FREQUENCIES} is not that of the base 10000")
    weights[FREQUENCIES] = expected
    try:
        placed = {key: value.to(device) for key, value in weights.items()}
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"no device {str(device)!r} here: {str(error).splitlines()[0]}") from error
    network.load_state_dict(placed, assign=True)
    return network.eval().requires_grad_(False)


def is_flow(folder: Path) -> bool:
    """Whether ``folder`` says that it holds a flow-matching expert, or an adapter of one."""
    try:
        config = read_json(folder / CONFIG)
    except ConservatorError:
        return False
    return isinstance(config, dict) and str(config.get("model_type", "")).startswith(KIND)


def read_flow_config(folder: Path) -> dict[str, Any]:
    """Read the ``config.json`` of an expert of this kind."""
    path = folder / CONFIG
    config = read_json(path)
    if not isinstance(config, dict) or not str(config.get("model_type", "")).startswith(KIND):
        raise ConservatorError(f"{path} does not describe a flow-matching expert: expected the model_type {KIND!r}")
    return config


def sizes_of(config: dict[str, Any], path: Path) -> FlowConfig:
    """The sizes of the network that a config describes; raise a ConservatorError that says what is wrong."""
    config = {"reach": FlowConfig.reach, "apart": FlowConfig.apart, **config}  # which public models do not have
    names = {field.name: "vocab_size" if field.name == "tokens" else field.name for field in fields(FlowConfig)}
    missing = [given for given in names.values() if given not in config]
    if missing:
        raise ConservatorError(f"{path} does not give {', '.join(missing)}")
    if config["source"] not in SOURCES:
        raise ConservatorError(f"{path}: the source is {config['source']!r}; accepted: {', '.join(SOURCES)}")
    if type(config["apart"]) is not bool or (config["apart"] and config["source"] != "uniform"):
        raise ConservatorError(f"{path}: apart is {config['apart']!r}; true is for a uniform source, else it is false")
    for name, given in names.items():
        value, largest = config[given], getattr(BOUNDS, name)
        least, kinds = (0, (int, float)) if name == "dropout" else (int(name != "reach"), (int,))
        if name not in ("source", "apart") and (type(value) not in kinds or not least <= value <= largest):
            raise ConservatorError(f"{path}: {given} is {value!r}; expected a number from {least} to {largest}")
    sizes = FlowConfig(**{name: config[given] for name, given in names.items()})
    if config.get("mask_token_id") != sizes.mask:
        found, wanted = config.get("mask_token_id"), sizes.mask
        raise ConservatorError(
            f"{path}: mask_token_id is {found}; with a {sizes.source} source of {sizes.tokens} tokens it is {wanted}"
        )
    if sizes.width % (2 * sizes.heads):
        raise ConservatorError(f"{path}: a width of {sizes.width} is no even multiple of {sizes.heads} heads")
    return sizes
