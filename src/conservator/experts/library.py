"""Experts by name: those that come with the package, folders of others, and pretrained models."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from conservator.errors import ConservatorError
from conservator.experts.byte import load_expert
from conservator.experts.expert import Expert
from conservator.experts.flow import is_flow, load_flow
from conservator.experts.language_models.loading import HUB, shortened
from conservator.experts.segmentation import ByteMarginalExpert
from conservator.experts.uniform import MaskedFromUniform
from conservator.experts.weights import CONFIG
from conservator.system.files import is_file, real_path
from conservator.system.threads import threads_for
from conservator.vocabularies import Tokens

if TYPE_CHECKING:
    from conservator.experts.language_models.precision import Precision

HOME = Path(__file__).parent / "builtin"


def builtin_names() -> list[str]:
    """The names of the experts that come with the package."""
    return sorted(folder.name for folder in HOME.iterdir() if (folder / CONFIG).is_file()) if HOME.is_dir() else []


def expert_folder(name: str) -> Path:
    """The folder of an expert: that of a built-in one by its name, else ``name`` as a path."""
    if name in builtin_names():
        return HOME / name
    if not is_file(Path(name) / CONFIG):
        raise ConservatorError(
            f"no expert {shortened(name)!r}: neither a folder with a {CONFIG} nor one of "
            f"{', '.join(builtin_names()) or 'none'}; pretrained models are {HUB}OWNER/NAME or {HUB}FOLDER"
        )
    return Path(name)


def load_experts(
    names: str | Sequence[str | Path],
    device: str = "cpu",
    *,
    precision: "Precision | None" = None,
    trust_remote_code: bool = False,
    native_tokens: bool = False,
) -> list[Expert]:
    """Load experts by name or folder, as ``"prose,code,hf:OWNER/NAME"`` or as a list; all of them speak about bytes.

    The name of a built-in expert always means that expert; a folder of the same name is given as ``./prose`` or as a
    Path. A pretrained model is named ``hf:``. An expert that was loaded before and has not changed on disk is not read
    again.

    Args:
        names: of the experts.
        device: where they compute.
        precision: how pretrained models compute; by default bfloat16 if the processor has instructions for it, else
            float32.
        trust_remote_code: whether code in the folder of a pretrained model may be run.
        native_tokens: whether an expert over tokens is left as it is, and speaks about its tokens.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    found: list[Expert] = []
    for name in (name for name in wanted if str(name)):
        if isinstance(name, str) and name.startswith(HUB):
            from conservator.experts.denoisers import load_denoiser

            found.append(load_denoiser(name, precision=precision, device=device, trust_remote_code=trust_remote_code))
        else:
            folder = name if isinstance(name, Path) else expert_folder(name)
            found.append(_load_once(real_path(folder), _stamp(folder), device))
    if not found:
        raise ConservatorError(f"no expert named; built in are {', '.join(builtin_names()) or 'none'}")
    return found if native_tokens else [as_byte_expert(one) for one in found]


def as_byte_expert(expert: Expert) -> Expert:
    """An expert of whatever vocabulary and source as one that speaks about bytes, and sees which are hidden."""
    if not expert.spec.source.shows_noise:
        expert = MaskedFromUniform(expert)
    return ByteMarginalExpert(expert) if isinstance(expert.spec.vocabulary, Tokens) else expert


@lru_cache(maxsize=16)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], device: str) -> Expert:
    """Load an expert; ``stamp`` is part of the cache's key, so that a folder that has changed is read again."""
    with threads_for(0):
        return load_flow(folder, device) if is_flow(folder) else load_expert(folder, device)


def _stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    """The times at which the files of an expert were written, and their sizes; empty if a file cannot be read."""
    try:
        found = [path.stat() for path in (folder / CONFIG, *sorted(folder.glob("*.safetensors")))]
    except OSError:  # loading raises an error that names the file
        return ()
    return tuple((one.st_mtime_ns, one.st_size) for one in found)
