"""Load experts by name: built-in experts, folders, and pretrained models."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from conservator.errors import ConservatorError
from conservator.experts.byte import ByteExpert, load_expert
from conservator.experts.expert import Expert
from conservator.experts.flow import FlowExpert, is_flow, load_flow
from conservator.experts.language_models.loading import HUB, shortened, stamp_of
from conservator.experts.segmentation import ByteMarginalExpert
from conservator.experts.uniform import MaskedFromUniform
from conservator.experts.weights import CONFIG
from conservator.system.files import is_file, real_path
from conservator.system.threads import threads_for
from conservator.vocabularies import Tokens

if TYPE_CHECKING:
    from conservator.experts.language_models.precision import Precision

BUILTIN_FOLDER = Path(__file__).parent / "builtin"


def builtin_names() -> list[str]:
    """Return the names of the built-in experts."""
    if not BUILTIN_FOLDER.is_dir():
        return []
    return sorted(folder.name for folder in BUILTIN_FOLDER.iterdir() if (folder / CONFIG).is_file())


def expert_folder(name: str) -> Path:
    """Return the folder of a built-in expert by its name, else ``name`` as a path."""
    if name in builtin_names():
        return BUILTIN_FOLDER / name
    if not is_file(Path(name) / CONFIG):
        raise ConservatorError(
            f"no expert {shortened(name)!r}: expected a folder with a {CONFIG}, a built-in expert "
            f"({', '.join(builtin_names()) or 'none'}), or a pretrained model ({HUB}OWNER/NAME, {HUB}FOLDER)"
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
    """Load experts over bytes by name or folder, given as ``"prose,code,hf:OWNER/NAME"`` or as a list.

    The name of a built-in expert takes precedence over a folder of the same name; pass ``./prose`` or a Path for the
    folder. Pretrained models have the prefix ``hf:``. Loaded experts are cached until their files change.

    Args:
        names: names or folders of the experts.
        device: torch device of the networks.
        precision: number format of pretrained models; by default bfloat16 if the processor has instructions for it,
            else float32.
        trust_remote_code: whether code in the folder of a pretrained model may run.
        native_tokens: whether an expert over tokens keeps its tokens instead of being converted to bytes.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    experts: list[Expert] = []
    for name in (name for name in given if str(name)):
        if isinstance(name, str) and name.startswith(HUB):
            from conservator.experts.denoisers import load_denoiser

            experts.append(load_denoiser(name, precision=precision, device=device, trust_remote_code=trust_remote_code))
        else:
            folder = name if isinstance(name, Path) else expert_folder(name)
            experts.append(_load_once(real_path(folder), stamp_of(folder), device))
    if not experts:
        raise ConservatorError(f"no expert named; built-in experts: {', '.join(builtin_names()) or 'none'}")
    return experts if native_tokens else [as_byte_expert(expert) for expert in experts]


def as_byte_expert(expert: Expert) -> Expert:
    """Wrap an expert of any vocabulary and source as a mask-source expert over bytes."""
    if not expert.spec.source.shows_noise:
        expert = MaskedFromUniform(expert)
    return ByteMarginalExpert(expert) if isinstance(expert.spec.vocabulary, Tokens) else expert


@lru_cache(maxsize=16)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], device: str) -> Expert:
    """Load an expert; ``stamp`` is part of the cache key, so that a changed folder is loaded again."""
    with threads_for(0):
        return load_trained(folder, device)


def load_trained(folder: Path, device: str = "cpu") -> ByteExpert | FlowExpert:
    """Load an expert that ``conservator train`` wrote."""
    return load_flow(folder, device) if is_flow(folder) else load_expert(folder, device)
