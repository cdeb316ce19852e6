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
    """Hash the options, the experts, the version and the SHA-256 hashes of the references."""
    from conservator import __version__
    from conservator.experts.language_models.loading import find_model

    is_product, experts = worker_config.factory == FACTORY, worker_config.experts
    expert_ids = [str(name) for name in expert_names(None if experts is None else list(experts))] if is_product else []
    uses_language_models = is_product and worker_config.options.effort == "best"
    names = worker_config.options.language_models.split(",") if uses_language_models else []
    language_models = [name.strip() for name in names]
    options: dict[str, Any] = asdict(worker_config.options)
    channel = str(worker_config.options.channel)
    options["channel"] = hash_file(Path(channel)) if channel.endswith(".json") else channel
    described = {
        "options": options,
        "version": __version__,
        "experts": [hash_expert(name) for name in expert_ids],
        "chosen": worker_config.experts is not None,
        "language": [_hash_folder(find_model(name)) for name in language_models],
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


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES and path.is_file():
            digest.update(f"{path.name} {hash_file(path)}\n".encode())
    return digest.hexdigest()
