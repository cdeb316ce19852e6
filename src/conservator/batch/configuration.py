"""Hash of a batch configuration: with the content of a document, it identifies the restored result."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conservator.batch.engine import FACTORY, WorkerConfig
from conservator.batch.items import hash_file
from conservator.options import expert_names

SUFFIXES = (".json", ".safetensors", ".txt", ".py")  # files of an expert that affect its predictions


def hash_configuration(worker_config: WorkerConfig, reference_hashes: Iterable[str] = ()) -> str:
    """Hash the options, the experts, the version and the references.

    Args:
        worker_config: the configuration of the workers.
        reference_hashes: SHA-256 hashes of the reference texts.
    """
    from conservator import __version__

    options: dict[str, Any] = asdict(worker_config.options)
    channel = str(worker_config.options.channel)
    options["channel"] = hash_file(Path(channel)) if channel.endswith(".json") else channel
    described = {
        "options": options,
        "version": __version__,
        "experts": [hash_expert(name) for name in _expert_names(worker_config)],
        "chosen": worker_config.experts is not None,
        "language": [hash_language_model(name) for name in _language_model_names(worker_config)],
        "computing": [worker_config.device, worker_config.precision],
        "texts": list(reference_hashes),
        "factory": worker_config.factory,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def hash_expert(name: str) -> str:
    """Hash the files of an expert and, for an adapter, the files of its base."""
    from conservator.experts.denoisers import find_denoiser
    from conservator.experts.language_models.loading import HUB
    from conservator.experts.library import expert_folder
    from conservator.experts.weights import CONFIG

    folder = find_denoiser(name) if name.startswith(HUB) else expert_folder(name)
    hashes = [_hash_folder(folder)]
    base = json.loads((folder / CONFIG).read_bytes()).get("base")
    if isinstance(base, dict) and isinstance(base.get("folder"), str):
        hashes.append(_hash_folder(folder / base["folder"]))
    return " ".join(hashes)


def hash_language_model(name: str) -> str:
    """Hash the files of a language model."""
    from conservator.experts.language_models.loading import find_model

    return _hash_folder(find_model(name))


def _expert_names(worker_config: WorkerConfig) -> list[str]:
    if worker_config.factory != FACTORY:
        return []
    experts = worker_config.experts
    return [str(name) for name in expert_names(experts if experts is None else list(experts))]


def _language_model_names(worker_config: WorkerConfig) -> list[str]:
    if worker_config.factory != FACTORY or worker_config.options.effort != "best":
        return []
    return [name.strip() for name in worker_config.options.language_models.split(",")]


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and path.is_file():
            digest.update(f"{path.name} {hash_file(path)}\n".encode())
    return digest.hexdigest()
