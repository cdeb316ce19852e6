"""The experts that come with the package, and experts of one's own by their folder."""

from collections.abc import Sequence
from pathlib import Path

import torch

from conservator.errors import ConservatorError
from conservator.experts.byte import CONFIG, ByteExpert, load_expert

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

    A name of a built-in expert means that one; a folder of the same name is ``./prose`` or a Path.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    folders = [name if isinstance(name, Path) else expert_folder(name) for name in wanted if str(name)]
    if not folders:
        raise ConservatorError(f"no expert named; built in are {', '.join(builtin_names()) or 'none'}")
    return [load_expert(folder, device) for folder in folders]
