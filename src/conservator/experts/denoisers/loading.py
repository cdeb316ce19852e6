"""Load masked models from folders in the layout of the hub, and from the cache of the hub."""

import json
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import ConservatorError
from conservator.experts.denoisers.families import LAST_ROW, Family, check_settings, family_of, max_positions_of
from conservator.experts.expert import Expert
from conservator.experts.flow import is_flow, load_flow
from conservator.experts.language_models.installed import hash_files
from conservator.experts.language_models.loading import (
    HUB,
    WEIGHTS,
    find_repository,
    load_network,
    missing_extra_error,
    shortened,
    stamp_of,
)
from conservator.system.files import check_files, is_folder, open_file, read_json, real_path
from conservator.vocabularies.hf_tokenizer import make_tokens, read_tokenizer, token_ids

if TYPE_CHECKING:
    from conservator.experts.language_models.precision import Precision

CONFIG_FILE, TOKENIZER = "config.json", "tokenizer.json"
TOKENIZER_FILES = (TOKENIZER, "tokenizer_config.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt")
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt")
BYTES_PER_WEIGHT = {"float32": 4, "bfloat16": 2}


def load_denoiser(
    name: str | Path,
    *,
    precision: "Precision | None" = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> Expert:
    """Load a masked model of a supported family as an expert over its tokens. Pickled weights are not loaded.

    Loaded models are cached until their files change.

    Args:
        name: ``hf:OWNER/NAME`` in the Hugging Face cache, ``hf:FOLDER`` or a folder, with config.json, a tokenizer and
            safetensors.
        precision: number format of the network; by default the result of ``choose_precision``.
        device: torch device of the network.
        trust_remote_code: whether code in the folder may run, which Dream, LLaDA, MDLM and DUO need.
    """
    folder = find_denoiser(name)
    if precision is not None and precision not in BYTES_PER_WEIGHT:
        raise ConservatorError(f"precision must be one of {', '.join(BYTES_PER_WEIGHT)}, got {precision!r}")
    try:
        from conservator.experts.language_models.precision import choose_precision

        chosen = precision or choose_precision()
        return _load_once(real_path(folder), stamp_of(folder), chosen, device, trust_remote_code)
    except ImportError as error:
        raise missing_extra_error(error, "hf") from error
    except ConservatorError as error:
        raise ConservatorError(f"{folder}: {error}") from error


def find_denoiser(name: str | Path) -> Path:
    """Return the folder of a model with safetensors; see ``load_denoiser`` for names."""
    given = str(name).removeprefix(HUB)
    folder = Path(given)
    if not given or not is_folder(folder):
        if not str(name).startswith(HUB) or given.count("/") != 1:
            raise ConservatorError(
                f"no model {shortened(str(name))!r}: there is no such folder; expected hf:OWNER/NAME or hf:FOLDER"
            )
        folder = find_repository(given, (CONFIG_FILE, *TOKENIZER_FILES, *WEIGHTS, "*.py"), extra="hf")
    if not (folder / CONFIG_FILE).is_file():
        raise ConservatorError(f"no model in {folder}: it has no {CONFIG_FILE}")
    if not any(folder.glob(WEIGHTS[0])):
        pickled = sorted(path for pattern in PICKLE_PATTERNS for path in folder.glob(pattern))
        if pickled:
            raise ConservatorError(
                f"{pickled[0]} is pickled; weights must be safetensors: "
                f"conservator convert {pickled[0]} --out FOLDER converts them"
            )
        raise ConservatorError(f"no model in {folder}: it has no *.safetensors")
    return folder


def size_of(folder: Path, precision: "Precision" = "float32") -> int:
    """Return the memory of the weights of a model in bytes, without loading them."""
    from safetensors import SafetensorError, safe_open

    count = 0
    for path in sorted(folder.glob(WEIGHTS[0])):
        try:
            with open_file(path), safe_open(path, "pt") as opened:
                count += sum(prod(opened.get_slice(key).get_shape()) for key in opened.keys())  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    return count * BYTES_PER_WEIGHT[precision]


def describe_denoiser(name: str | Path) -> dict[str, Any]:
    """Describe a model without loading it: name, kind, bytes of its weights, tokens, source and sha256."""
    folder = find_denoiser(name)
    config = read_model_config(folder)
    model_type = config.get("model_type")
    base_config, name_shown = config, real_path(folder).name
    if is_flow(folder):
        base = config.get("base")
        base_config = read_model_config(folder / str(base.get("folder"))) if isinstance(base, dict) else config
        source, name_shown = str(base_config.get("source")), str(config.get("name") or name_shown)
    else:
        source = "mask" if family_of(model_type).source.shows_noise else "uniform"
    weights = sorted(folder.glob(WEIGHTS[0]))
    size = sum(path.stat().st_size for path in weights)
    return {
        "name": name_shown,
        "kind": str(model_type),
        "bytes": size,
        "tokens": base_config.get("vocab_size"),
        "source": source,
        "sha256": hash_files(weights),
    }


@lru_cache(maxsize=4)
def _load_once(
    folder: Path, stamp: tuple[tuple[int, int], ...], precision: "Precision", device: str, trust_remote_code: bool
) -> Expert:
    """Load a model; ``stamp`` is part of the cache key, so that a changed folder is loaded again."""
    check_files(folder)
    model_type = read_model_config(folder).get("model_type")
    if is_flow(folder):
        return load_flow(folder, device)
    family = family_of(model_type)
    if family.remote and not trust_remote_code:
        raise ConservatorError(
            f"a model of type {model_type!r} needs to run code from its folder; "
            "allow it with --trust-remote-code (trust_remote_code=True)"
        )
    from conservator.experts.denoisers.denoiser import Denoiser

    def choose_class(config: Any) -> Any:
        check_settings(config)
        return network_class(folder, family)

    try:
        network, loading = load_network(folder, choose_class, precision, trust_remote_code=family.remote)
    except ConservatorError:
        raise
    except Exception as error:  # errors of json, safetensors, transformers and code in the folder
        raise ConservatorError(f"cannot load the model: {error}") from error
    missing = sorted(loading["missing_keys"])
    if missing:
        raise ConservatorError(f"the weights lack {', '.join(missing[:3])}; all layers of the network must be present")
    try:
        network.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"device {device!r} is not available: {str(error).splitlines()[0]}") from error
    tokenizer = read_tokenizer_config(folder, family)
    size = int(network.config.vocab_size)
    mask = size - 1 if family.mask == LAST_ROW else token_id_of(tokenizer, family.mask, size)
    return Denoiser(
        network,
        family,
        make_tokens(tokenizer, size),
        max_positions=max_positions_of(family, network.config),
        mask=mask,
        start=token_id_of(tokenizer, family.start, size),
        end=token_id_of(tokenizer, family.end, size),
        name=folder.name,
        fingerprint=hash_files(sorted(folder.glob(WEIGHTS[0]))),
    )


def network_class(folder: Path, family: Family) -> Any:
    """Return the class of a network, from transformers or from the code in the folder."""
    import transformers
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    if not family.remote:
        return getattr(transformers, family.loader)
    class_name = (read_model_config(folder).get("auto_map") or {}).get(family.loader)
    if class_name is None:
        raise ConservatorError(f"auto_map in {CONFIG_FILE} must have the key {family.loader}")
    network = get_class_from_dynamic_module(class_name, str(folder), local_files_only=True)
    if not hasattr(network, "all_tied_weights_keys"):  # code for transformers 4 does not set it
        network.all_tied_weights_keys = {}
    return network


def read_model_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a model."""
    config = read_json(folder / CONFIG_FILE)
    if not isinstance(config, dict):
        raise ConservatorError(f"{CONFIG_FILE} must be a JSON object that describes a model")
    return config


def read_tokenizer_config(folder: Path, family: Family) -> dict[str, Any]:
    """Read tokenizer.json, or convert the older files of the family's tokenizer to its format."""
    if (folder / TOKENIZER).is_file():
        return read_tokenizer(folder / TOKENIZER)
    older: Sequence[str] = [name for name in ("vocab.txt", "vocab.json") if (folder / name).is_file()]
    if not older or not family.tokenizer:
        raise ConservatorError(f"there is no {TOKENIZER}; add the one that the model was trained with")
    import transformers

    from conservator.experts.language_models.convert import quietly

    try:
        with quietly():
            tokenizer = getattr(transformers, family.tokenizer).from_pretrained(str(folder), local_files_only=True)
            config: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # errors of json and transformers
        raise ConservatorError(f"cannot read the tokenizer of {', '.join(older)}: {error}") from error
    return config


def token_id_of(tokenizer: dict[str, Any], token: str, size: int) -> int | None:
    """Return the id of a token; raise a ConservatorError unless it is below ``size``. None for an empty token."""
    if not token:
        return None
    ids = token_ids(tokenizer)
    if token not in ids:
        raise ConservatorError(f"the tokenizer must have the token {token}, which the model family needs")
    token_id = int(ids[token])
    if token_id >= size:
        raise ConservatorError(f"the id of {token} must be below the {size} tokens of the network, got {token_id}")
    return token_id
