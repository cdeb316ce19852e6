"""The experts that come with the package, and experts of one's own by their folder."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from conservator.errors import ConservatorError
from conservator.experts.byte import CONFIG, WEIGHTS, ByteExpert, load_expert

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

    A name of a built-in expert means that one; a folder of the same name is ``./prose`` or a Path. An expert that was
    loaded before and has not changed on disk is not read again.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    folders = [name if isinstance(name, Path) else expert_folder(name) for name in wanted if str(name)]
    if not folders:
        raise ConservatorError(f"no expert named; built in are {', '.join(builtin_names()) or 'none'}")
    return [_load_once(folder.resolve(), _stamp(folder), str(device)) for folder in folders]


@lru_cache(maxsize=16)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], device: str) -> ByteExpert:
    """Load an expert; ``stamp`` tells apart what its folder held at different times."""
    return load_expert(folder, device)


def _stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    """When the files of an expert were written, and their sizes; nothing where they cannot be looked at."""
    try:
        found = [(folder / name).stat() for name in (CONFIG, WEIGHTS)]
    except OSError:  # loading says what is missing
        return ()
    return tuple((one.st_mtime_ns, one.st_size) for one in found)
