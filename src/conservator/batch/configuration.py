"""The configuration of a batch as one hash: with the content of a document, it says what its restoration is."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conservator.batch.engine import FACTORY, WorkerConfig
from conservator.batch.items import hash_file
from conservator.options import expert_names

SUFFIXES = (".json", ".safetensors", ".txt", ".py")  # files of an expert that say what it predicts


def hash_configuration(setup: WorkerConfig, texts: Iterable[str] = ()) -> str:
    """The hash of options, experts, version and texts like the documents (by their hashes)."""
    from conservator import __version__

    options: dict[str, Any] = asdict(setup.options)
    channel = str(setup.options.channel)
    options["channel"] = hash_file(Path(channel)) if channel.endswith(".json") else channel
    described = {
        "options": options,
        "version": __version__,
        "experts": [hash_expert(name) for name in _names(setup)],
        "chosen": setup.experts is not None,
        "language": [hash_language(name) for name in _language(setup)],
        "computing": [setup.device, setup.precision],
        "texts": list(texts),
        "factory": setup.factory,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def hash_expert(name: str) -> str:
    """The hash of the files of an expert, and of the base that it adapts, if it does."""
    from conservator.experts.denoisers import find_denoiser
    from conservator.experts.language_models.loading import HUB
    from conservator.experts.library import expert_folder
    from conservator.experts.weights import CONFIG

    folder = find_denoiser(name) if name.startswith(HUB) else expert_folder(name)
    found = [_hash_folder(folder)]
    base = json.loads((folder / CONFIG).read_bytes()).get("base")
    if isinstance(base, dict) and isinstance(base.get("folder"), str):
        found.append(_hash_folder(folder / base["folder"]))
    return " ".join(found)


def hash_language(name: str) -> str:
    """The hash of the files of a language model."""
    from conservator.experts.language_models.loading import find_model

    return _hash_folder(find_model(name))


def _names(setup: WorkerConfig) -> list[str]:
    if setup.factory != FACTORY:
        return []
    return [str(name) for name in expert_names(setup.experts if setup.experts is None else list(setup.experts))]


def _language(setup: WorkerConfig) -> list[str]:
    if setup.factory != FACTORY or setup.options.effort != "best":
        return []
    return [name.strip() for name in setup.options.language_models.split(",")]


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and path.is_file():
            digest.update(f"{path.name} {hash_file(path)}\n".encode())
    return digest.hexdigest()
