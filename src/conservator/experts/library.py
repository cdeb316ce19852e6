"""Load the experts that come with the package by name, and other experts by folder."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from conservator.errors import ConservatorError
from conservator.experts.byte import ByteExpert, load_expert
from conservator.experts.weights import CONFIG, WEIGHTS

HOME = Path(__file__).parent / "builtin"


def builtin_names() -> list[str]:
    """The names of the experts that come with the package."""
    return sorted(folder.name for folder in HOME.iterdir() if (folder / CONFIG).is_file()) if HOME.is_dir() else []


def expert_folder(name: str) -> Path:
    """The folder of an expert: that of a built-in one by its name, else ``name`` as a path."""
    if name in builtin_names():
        return HOME / name
    if not (Path(name) / CONFIG).is_file():
        raise ConservatorError(
            f"no expert {name!r}: neither a folder with a {CONFIG} nor one of {', '.join(builtin_names()) or 'none'}"
        )
    return Path(name)


def load_experts(names: str | Sequence[str | Path], device: str | torch.device = "cpu") -> list[ByteExpert]:
    """Load experts by name or folder, as ``"prose,code,config"`` or as a list; all of them read bytes.

    The name of a built-in expert always means that expert; a folder of the same name is given as ``./prose`` or as a
    Path. An expert that was loaded before and has not changed on disk is not read again.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    folders = [name if isinstance(name, Path) else expert_folder(name) for name in wanted if str(name)]
    if not folders:
        raise ConservatorError(f"no expert named; built in are {', '.join(builtin_names()) or 'none'}")
    return [_load_once(folder.resolve(), _stamp(folder), str(device)) for folder in folders]


@lru_cache(maxsize=16)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], device: str) -> ByteExpert:
    """Load an expert; ``stamp`` is part of the cache's key, so that a folder that has changed is read again."""
    return load_expert(folder, device)


def _stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    """The times at which the files of an expert were written, and their sizes; empty if a file is missing."""
    try:
        found = [(folder / name).stat() for name in (CONFIG, WEIGHTS)]
    except OSError:  # loading raises an error that names the file
        return ()
    return tuple((one.st_mtime_ns, one.st_size) for one in found)
