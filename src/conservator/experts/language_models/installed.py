"""Language models that are installed on this machine."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import cache_home, open_file, read_json

ABOUT = "conservator.json"
CHUNK_BYTES = 1 << 20  # bytes: hashed at once [untuned]
REQUIRED_FILES = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class AddedModel:
    """An installed language model.

    Attributes:
        name: name for ``load_language_model``.
        kind: ``model_type`` of the network.
        bytes: size of the weights on disk.
        licence: licence of the weights, or "" if unknown.
        sha256: SHA-256 hash of the original file.
    """

    name: str
    kind: str
    bytes: int
    licence: str
    sha256: str


def models_home() -> Path:
    """Return the folder ``models`` of the cache."""
    return cache_home() / "models"


def model_folder(name: str) -> Path:
    """Return the folder of a model by name; raise a ConservatorError if the name is invalid."""
    if not name or name.startswith(".") or set(name) & set("/\\:"):
        raise ConservatorError(f"invalid model name {name!r}; accepted: letters, digits, - . and _")
    return models_home() / name


def is_model(folder: Path) -> bool:
    """Return whether a folder contains a language model."""
    return all((folder / name).is_file() for name in REQUIRED_FILES) and any(folder.glob("*.safetensors"))


def hash_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256 hash of the concatenation of files."""
    digest = hashlib.sha256()
    for path in paths:
        with open_file(path) as handle:
            while chunk := handle.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def added_models() -> list[AddedModel]:
    """Return the installed models, sorted by name."""
    home = models_home()
    folders = sorted(home.iterdir()) if home.is_dir() else []
    return [_describe(folder) for folder in folders if not folder.name.startswith(".") and is_model(folder)]


def _describe(folder: Path) -> AddedModel:
    about, config = _read(folder / ABOUT), _read(folder / "config.json")
    return AddedModel(
        name=folder.name,
        kind=str(config.get("model_type", "")),
        bytes=sum(path.stat().st_size for path in folder.glob("*.safetensors")),
        licence=str(about.get("licence", "")),
        sha256=str(about.get("sha256", "")),
    )


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or invalid, so that one model cannot break the list."""
    try:
        content = read_json(path)
    except ConservatorError:
        return {}
    return content if isinstance(content, dict) else {}
