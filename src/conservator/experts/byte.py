"""Byte experts: a network with a name, stored as safetensors and a ``config.json``."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as format_safetensors
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, ExpertSpec, check_context, copy_visible
from conservator.experts.network import HIDDEN, ByteNetwork, NetworkConfig
from conservator.experts.weights import CONFIG, WEIGHTS, check_sizes, set_weights
from conservator.system.files import make_folder, read_file, read_json, write_atomically
from conservator.vocabularies import BYTES

FORMAT = "conservator byte expert 1"
MAX_CONFIG_BYTES = 2**20  # bytes: size of config.json [safety limit]
MAX_WEIGHTS_BYTES = 2**31  # bytes: size of model.safetensors [safety limit]
# Upper bounds of the sizes of a network, larger than any usable one. A config that exceeds one is rejected.
MAX_SIZES = NetworkConfig(
    context=2**16,
    channels=2**13,
    convolutions=64,
    reach=32,
    hidden_channels=2**14,
    memory=2**24,
    memory_width=2**10,
    patch=64,
    width=2**13,
    layers=128,
    heads=128,
    dropout=0.9,
)


class ByteExpert:
    """A frozen mask-source expert over bytes, without time input."""

    def __init__(self, network: ByteNetwork, name: str, fingerprint: str, about: dict[str, Any] | None = None) -> None:
        """Freeze ``network``; ``about`` is the record of its training."""
        self.network = network.eval().requires_grad_(False)
        self.spec = ExpertSpec(name, BYTES, network.config.context, fingerprint=fingerprint)
        self.about = about or {}

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.network.parameters())

    @torch.no_grad()
    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible bytes) at the positions ``at``: (n, 256), float32."""
        check_context(self.spec, context)
        device = self.network.head.weight.device
        tokens, hidden = context.tokens.to(device, torch.long), context.hidden.to(device)
        real = context.real.to(device)
        hidden = hidden | ~real
        invalid = ~hidden & ((tokens < 0) | (tokens >= BYTES.size))
        if invalid.any():
            raise ConservatorError(
                f"visible tokens must be bytes from 0 to {BYTES.size - 1}, got {int(tokens[invalid][0])}"
            )
        features = self.network.features(tokens.masked_fill(hidden, HIDDEN), real)
        row, column = at[0].to(device), at[1].to(device)
        log_probs = torch.log_softmax(self.network.logits(features[row, column]), dim=-1)
        return copy_visible(log_probs, Context(tokens, hidden), (row, column)).to(context.tokens.device)


def save_expert(folder: Path, network: ByteNetwork, name: str, about: dict[str, Any]) -> None:
    """Write a network to ``folder``: float16 weights, then the config, which contains their hash."""
    weights = {key: value.to("cpu", torch.float16).contiguous() for key, value in network.state_dict().items()}
    data = format_safetensors(weights)
    config = {
        "format": FORMAT,
        "name": name,
        "network": asdict(network.config),
        "weights": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()},
        "about": about,
    }
    make_folder(folder)
    write_atomically(folder / WEIGHTS, data)
    write_atomically(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def load_expert(folder: Path, device: str | torch.device = "cpu") -> ByteExpert:
    """Load an expert that ``save_expert`` wrote; raise a ConservatorError if the files are missing or damaged."""
    config = read_config(folder)
    data = read_file(folder / WEIGHTS, MAX_WEIGHTS_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if digest != config["weights"]["sha256"]:
        expected = config["weights"]["bytes"]
        damage = f"it has {len(data)} bytes of {expected}" if len(data) != expected else "its content has changed"
        raise ConservatorError(
            f"{folder / WEIGHTS} does not match the hash in {CONFIG}: {damage}; training with --resume writes both"
        )
    try:
        weights = parse_safetensors(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ConservatorError(f"{folder / WEIGHTS} is not a safetensors file: {error}") from error
    with torch.device("meta"):
        network = ByteNetwork(NetworkConfig(**config["network"]))
    set_weights(network, weights, folder / WEIGHTS, device)
    return ByteExpert(network, config["name"], digest, config["about"])


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check the ``config.json`` of an expert."""
    path = folder / CONFIG
    config = read_json(path, MAX_CONFIG_BYTES)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ConservatorError(f"{path} does not describe a byte expert: expected the format {FORMAT!r}")
    weights, name = config.get("weights"), config.get("name")
    size, digest = (weights.get("bytes"), weights.get("sha256")) if isinstance(weights, dict) else (None, None)
    valid = isinstance(digest, str) and type(size) is int and 0 <= size <= MAX_WEIGHTS_BYTES
    if not valid or not isinstance(name, str) or not name or not isinstance(config.get("about"), dict):
        raise ConservatorError(f"{path} is incomplete: expected name, network, weights (bytes, sha256) and about")
    sizes, maxima = config.get("network"), asdict(MAX_SIZES)
    if not isinstance(sizes, dict) or sizes.keys() != maxima.keys():
        raise ConservatorError(f"{path}: network must have exactly the keys {', '.join(maxima)}")
    check_sizes(sizes, maxima, path)
    return config
