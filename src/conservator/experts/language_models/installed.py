"""Where language models are kept on this machine, and which are there."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import cache_home, open_file, read_json

ABOUT = "conservator.json"
CHUNK = 1 << 20
PARTS = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class AddedModel:
    """A language model that was added.

    Attributes:
        name: what it is loaded by.
        kind: the type of its network.
        bytes: the size of its weights on disk.
        licence: its terms, or "" if they are not known.
        sha256: the hash of what it was made from.
    """

    name: str
    kind: str
    bytes: int
    licence: str
    sha256: str


def models_home() -> Path:
    """The folder ``models`` of the cache."""
    return cache_home() / "models"


def model_folder(name: str) -> Path:
    """The folder of a model that is or will be added; raise a ConservatorError if the name cannot be one."""
    if not name or name.startswith(".") or set(name) & set("/\\:"):
        raise ConservatorError(f"{name!r} is no name of a model; accepted: letters, digits, - . and _")
    return models_home() / name


def is_model(folder: Path) -> bool:
    """Whether a folder holds a language model."""
    return all((folder / part).is_file() for part in PARTS) and any(folder.glob("*.safetensors"))


def hash_files(paths: Iterable[Path]) -> str:
    """The sha256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with open_file(path) as handle:
            while chunk := handle.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def added_models() -> list[AddedModel]:
    """The models that were added, by name."""
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
    """A file of JSON, or nothing if it is missing or broken: a list of models does not stop at one of them."""
    try:
        found = read_json(path)
    except ConservatorError:
        return {}
    return found if isinstance(found, dict) else {}
