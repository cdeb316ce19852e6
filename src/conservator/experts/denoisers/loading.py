"""Two-sided models from folders in the hub's layout, and from the hub's cache."""

import json
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import ConservatorError
from conservator.experts.denoisers.families import LAST, Family, check_plain, family_of, longest_of
from conservator.experts.expert import Expert
from conservator.experts.flow import is_flow, load_flow
from conservator.experts.language_models.installed import hash_files
from conservator.experts.language_models.loading import (
    HUB,
    WEIGHTS,
    find_repository,
    missing_extra_error,
    shortened,
    stamp_of,
)
from conservator.system.files import check_files, is_folder, open_file, read_json, real_path
from conservator.vocabularies.hf_tokenizer import make_tokens, read_tokenizer

if TYPE_CHECKING:
    from conservator.experts.language_models.precision import Precision

SETTINGS, TOKENIZER = "config.json", "tokenizer.json"
TEXTS = (TOKENIZER, "tokenizer_config.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
BYTES_OF = {"float32": 4, "bfloat16": 2}  # a weight, in each precision


def load_denoiser(
    name: str | Path,
    *,
    precision: "Precision | None" = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
    fetch: bool = False,
) -> Expert:
    """Load a two-sided model of a known family as an expert over its tokens. No pickled weights are read.

    A model that is loaded already, and has not changed since, is not loaded again.

    Args:
        name: ``hf:OWNER/NAME``, ``hf:FOLDER`` or a folder, with config.json, a tokenizer and safetensors.
        precision: how it computes; by default what ``choose_precision`` says.
        device: where it computes.
        trust_remote_code: whether code in the folder may be run, which Dream, LLaDA, MDLM and DUO need.
        fetch: whether ``hf:`` may download; else it must be in the hub's cache.
    """
    folder = find_denoiser(name, fetch=fetch)
    if precision is not None and precision not in BYTES_OF:
        raise ConservatorError(f"no precision {precision!r}; accepted: {', '.join(BYTES_OF)}")
    try:
        from conservator.experts.language_models.precision import choose_precision

        chosen = precision or choose_precision()
        return _load_once(real_path(folder), stamp_of(folder), chosen, device, trust_remote_code)
    except ImportError as error:
        raise missing_extra_error(error, "hf") from error
    except ConservatorError as error:
        raise ConservatorError(f"{folder}: {error}") from error


def find_denoiser(name: str | Path, *, fetch: bool = False) -> Path:
    """The folder of a model by its repository or folder; see ``load_denoiser``. Its weights are safetensors."""
    given = str(name).removeprefix(HUB)
    folder = Path(given)
    if not given or not is_folder(folder):
        if not str(name).startswith(HUB) or given.count("/") != 1:
            raise ConservatorError(
                f"no model {shortened(str(name))!r}: there is no such folder; accepted: hf:OWNER/NAME, hf:FOLDER"
            )
        folder = find_repository(given, (SETTINGS, *TEXTS, *WEIGHTS, "*.py"), fetch=fetch, extra="hf")
    if not (folder / SETTINGS).is_file():
        raise ConservatorError(f"no model in {folder}: it has no {SETTINGS}")
    if not any(folder.glob(WEIGHTS[0])):
        pickled = sorted(path for pattern in PICKLED for path in folder.glob(pattern))
        if pickled:
            raise ConservatorError(
                f"{pickled[0]} is pickled, and such weights are not read; "
                f"conservator convert {pickled[0]} --out FOLDER makes safetensors of them"
            )
        raise ConservatorError(f"no model in {folder}: it has no *.safetensors")
    return folder


def size_of(folder: Path, precision: "Precision" = "float32") -> int:
    """The bytes of memory that the weights of a model will take, told without loading them."""
    from safetensors import SafetensorError, safe_open

    count = 0
    for path in sorted(folder.glob(WEIGHTS[0])):
        try:
            with open_file(path), safe_open(path, "pt") as opened:
                count += sum(prod(opened.get_slice(key).get_shape()) for key in opened.keys())  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ConservatorError(f"{path} is not a safetensors file: {error}") from error
    return count * BYTES_OF[precision]


def describe_denoiser(name: str | Path) -> dict[str, Any]:
    """What is known of a model without loading it: name, kind, bytes of its weights, tokens, source and sha256."""
    folder = find_denoiser(name)
    settings = read_settings(folder)
    kind = settings.get("model_type")
    about, shown = settings, real_path(folder).name
    if is_flow(folder):
        base = settings.get("base")
        about = read_settings(folder / str(base.get("folder"))) if isinstance(base, dict) else settings
        source, shown = str(about.get("source")), str(settings.get("name") or shown)
    else:
        source = "mask" if family_of(kind).source.shows_noise else "uniform"
    weights = sorted(folder.glob(WEIGHTS[0]))
    size = sum(path.stat().st_size for path in weights)
    found = {"name": shown, "kind": str(kind), "bytes": size, "tokens": about.get("vocab_size"), "source": source}
    return found | {"sha256": hash_files(weights)}


@lru_cache(maxsize=4)
def _load_once(
    folder: Path, stamp: tuple[tuple[int, int], ...], precision: "Precision", device: str, trusted: bool
) -> Expert:
    """Load a model; ``stamp`` is part of the cache's key, so that a folder that has changed is read again."""
    check_files(folder)
    kind = read_settings(folder).get("model_type")
    if is_flow(folder):
        return load_flow(folder, device)
    family = family_of(kind)
    if family.remote and not trusted:
        raise ConservatorError(
            f"a model of type {kind!r} is code in its folder, which is run only if that is allowed; "
            "--trust-remote-code (trust_remote_code=True) allows it"
        )
    from conservator.experts.denoisers.denoiser import Denoiser

    network = load_network(folder, family, precision)
    try:
        network.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConservatorError(f"no device {device!r} here: {str(error).splitlines()[0]}") from error
    described = describe_tokenizer(folder, family)
    size = int(network.config.vocab_size)
    mask = size - 1 if family.mask == LAST else number_of(described, family.mask, size)
    return Denoiser(
        network,
        family,
        make_tokens(described, size),
        longest=longest_of(family, network.config),
        mask=mask,
        start=number_of(described, family.start, size),
        end=number_of(described, family.end, size),
        name=folder.name,
        fingerprint=hash_files(sorted(folder.glob(WEIGHTS[0]))),
    )


def load_network(folder: Path, family: Family, precision: "Precision") -> Any:
    """The network of a family; raise a ConservatorError if some of its weights are not in the folder."""
    import torch
    import transformers

    from conservator.experts.language_models.convert import quietly

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": family.remote}
    try:
        with quietly():
            config = transformers.AutoConfig.from_pretrained(str(folder), **local)
            check_plain(config)
            network, loading = network_class(folder, family).from_pretrained(
                str(folder),
                config=config,
                dtype=getattr(torch, precision),
                use_safetensors=True,
                output_loading_info=True,
                **local,
            )
    except ConservatorError:
        raise
    except Exception as error:  # of json, safetensors, transformers and code in the folder
        raise ConservatorError(f"cannot load the model: {error}") from error
    absent = sorted(loading["missing_keys"])
    if absent:
        raise ConservatorError(f"the weights lack {', '.join(absent[:3])}; accepted: a model with all of its layers")
    return network


def network_class(folder: Path, family: Family) -> Any:
    """The class that loads a network: of transformers, or of the code in the folder."""
    import transformers
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    if not family.remote:
        return getattr(transformers, family.loader)
    named = (read_settings(folder).get("auto_map") or {}).get(family.loader)
    if named is None:
        raise ConservatorError(f"auto_map in {SETTINGS} names no {family.loader}")
    found = get_class_from_dynamic_module(named, str(folder), local_files_only=True)
    if not hasattr(found, "all_tied_weights_keys"):  # code that was written for transformers 4 does not set it
        found.all_tied_weights_keys = {}
    return found


def read_settings(folder: Path) -> dict[str, Any]:
    """What config.json holds."""
    found = read_json(folder / SETTINGS)
    if not isinstance(found, dict):
        raise ConservatorError(f"{SETTINGS} does not describe a model")
    return found


def describe_tokenizer(folder: Path, family: Family) -> dict[str, Any]:
    """What tokenizer.json holds, or would hold, if the folder has the older files of the family's tokenizer."""
    if (folder / TOKENIZER).is_file():
        return read_tokenizer(folder / TOKENIZER)
    others: Sequence[str] = [one for one in ("vocab.txt", "vocab.json") if (folder / one).is_file()]
    if not others or not family.tokenizer:
        raise ConservatorError(
            f"it has no {TOKENIZER}; put that of the tokenizer that the model was trained with there"
        )
    import transformers

    from conservator.experts.language_models.convert import quietly

    try:
        with quietly():
            made = getattr(transformers, family.tokenizer).from_pretrained(str(folder), local_files_only=True)
            found: dict[str, Any] = json.loads(made.backend_tokenizer.to_str())
    except Exception as error:  # of json and transformers
        raise ConservatorError(f"cannot read the tokenizer of {', '.join(others)}: {error}") from error
    return found


def number_of(described: dict[str, Any], token: str, size: int) -> int | None:
    """The number of a token of a tokenizer, one of ``size`` that the network has; None for no token."""
    if not token:
        return None
    added = {one["content"]: one["id"] for one in described.get("added_tokens", [])}
    known = described["model"]["vocab"]
    if token not in added and token not in known:
        raise ConservatorError(f"its tokenizer has no token {token}, which its family needs")
    number = int(added.get(token, known.get(token)))
    if number >= size:
        raise ConservatorError(f"its tokenizer has {token} as the token {number}, its network only {size} tokens")
    return number
