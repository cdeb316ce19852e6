"""Load language models: installed models by name, others from folders, GGUF files and the Hugging Face cache."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import ConservatorError
from conservator.experts.language_models.catalogue import CATALOGUE
from conservator.experts.language_models.installed import (
    REQUIRED_FILES,
    added_models,
    hash_files,
    is_model,
    model_folder,
)
from conservator.system.files import check_files, is_file, is_folder, real_path
from conservator.vocabularies.hf_tokenizer import load_tokens, read_tokenizer, token_ids

if TYPE_CHECKING:
    from conservator.experts.language_models.model import LanguageModel
    from conservator.experts.language_models.precision import Precision

HUB = "hf:"
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def load_language_model(name: str | Path, precision: "Precision | None" = None) -> "LanguageModel":
    """Load a language model of a supported family. Remote code and pickled weights are never loaded.

    Args:
        name: name of an installed model (``conservator experts add``), ``hf:OWNER/NAME`` in the Hugging Face cache, a
            folder with config.json, tokenizer.json and safetensors, or a ``.gguf`` file, which is converted once.
        precision: number format of the computation; None for ``choose_precision()``.
    """
    folder = find_model(name)
    try:
        from conservator.experts.language_models.precision import choose_precision

        return _load_once(real_path(folder), stamp_of(folder), precision or choose_precision())
    except ImportError as error:
        raise missing_extra_error(error) from error


def missing_extra_error(error: ImportError, extra: str = "lm") -> ConservatorError:
    """Create the error for a missing package of an extra."""
    return ConservatorError(f'{error.name} is not installed; install it with: pip install "conservator[{extra}]"')


def find_model(name: str | Path) -> Path:
    """Return the folder of a model, given as in ``load_language_model``."""
    given = str(name)
    if given.startswith(HUB):
        folder = find_repository(given.removeprefix(HUB), (*REQUIRED_FILES, *WEIGHTS))
        if not is_model(folder):
            raise ConservatorError(f"{given} must contain {', '.join(REQUIRED_FILES)} and *.safetensors")
        return folder
    if isinstance(name, str) and given in [model.name for model in added_models()]:
        return model_folder(given)
    path = Path(name)
    if path.suffix == ".gguf" and is_file(path):
        from conservator.experts.language_models.fetching import add_gguf

        return add_gguf(path)
    if is_folder(path):
        if not is_model(path):
            raise ConservatorError(
                f"{path} is not a language model: it must contain {', '.join(REQUIRED_FILES)} and *.safetensors"
            )
        return path
    if given in CATALOGUE:
        raise ConservatorError(f"the language model {given} is not installed; run: conservator experts add {given}")
    names = ", ".join(model.name for model in added_models()) or "none"
    raise ConservatorError(
        f"unknown language model {shortened(given)!r}; expected the name of a model (installed: {names}; available: "
        f"{', '.join(CATALOGUE)}), hf:OWNER/NAME, a folder or a .gguf file"
    )


def shortened(name: str, max_length: int = 80) -> str:
    """Shorten a name for an error message."""
    return name if len(name) <= max_length else f"{name[:max_length]}..."


def find_repository(repository: str, patterns: Sequence[str], extra: str = "lm") -> Path:
    """Return the folder of a repository ``OWNER/NAME`` in the Hugging Face cache, with files that match ``patterns``.

    ``extra`` is the extra that contains the required packages.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise missing_extra_error(error, extra) from error
    try:
        return Path(snapshot_download(repository, allow_patterns=list(patterns), local_files_only=True))
    except Exception as error:  # errors of the hub, and of invalid names
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConservatorError(
            f"{HUB}{repository} is not in the Hugging Face cache; run: hf download {repository} ({reason})"
        ) from error


@lru_cache(maxsize=2)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], precision: "Precision") -> "LanguageModel":
    """Load a model. ``stamp`` is part of the cache key, so that a changed folder is loaded again."""
    from transformers import AutoModelForCausalLM

    from conservator.experts.language_models.families import family_of
    from conservator.experts.language_models.model import LanguageModel

    def choose_class(config: Any) -> Any:
        family_of(config)  # raises if it is not supported
        return AutoModelForCausalLM

    check_files(folder)
    try:
        # check_loaded rejects mismatched sizes with an error that names the tensors
        network, loading = load_network(folder, choose_class, precision, ignore_mismatched_sizes=True)
        check_loaded(loading)
    except ConservatorError as error:
        raise ConservatorError(f"{folder}: {error}") from error
    except Exception as error:  # errors of json, safetensors and transformers
        raise ConservatorError(f"cannot load the language model in {folder}: {error}") from error
    tokenizer = folder / "tokenizer.json"
    tokens = load_tokens(tokenizer, network.get_output_embeddings().weight.shape[0])
    start = find_start_token(tokenizer, family_of(network.config).starts)
    return LanguageModel(network, tokens, start, folder.name, hash_files(sorted(folder.glob("*.safetensors"))))


def load_network(
    folder: Path, choose_class: Callable[[Any], Any], precision: "Precision", **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Load a network with transformers; return it with the loading report.

    Args:
        folder: folder of the model.
        choose_class: returns the class of the network for a config; raises a ConservatorError if it is not supported.
        precision: number format of the weights.
        options: further arguments of ``from_pretrained``.
    """
    import torch
    from transformers import AutoConfig

    from conservator.experts.language_models.convert import quietly

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False} | options
    with quietly():
        config = AutoConfig.from_pretrained(str(folder), **local)
        loaded: tuple[Any, dict[str, Any]] = choose_class(config).from_pretrained(
            str(folder),
            config=config,
            dtype=getattr(torch, precision),
            use_safetensors=True,
            output_loading_info=True,
            **local,
        )
    return loaded


def check_loaded(
    loading: dict[str, Any],
    fix: str = "copy all *.safetensors files of the model, and its config.json, into the folder",
) -> None:
    """Raise a ConservatorError with the advice ``fix`` if missing, mismatched or unexpected tensors were reported.

    transformers initialises missing and mismatched tensors at random. Tied weights do not count as missing.
    """
    missing = sorted(loading["missing_keys"])
    if missing:
        raise ConservatorError(f"the weights lack {len(missing)} tensors ({_first_names(missing)}); {fix}")
    mismatched = [
        f"{name}: expected {list(expected)}, got {list(stored)}"
        for name, stored, expected in loading["mismatched_keys"]
    ]
    if mismatched:
        raise ConservatorError(
            f"{len(mismatched)} tensors of the weights have unexpected shapes ({_first_names(mismatched)}); {fix}"
        )
    unexpected = sorted(name for name in loading["unexpected_keys"] if name.endswith(".weight"))
    if unexpected:
        raise ConservatorError(
            f"the weights have {len(unexpected)} unexpected tensors ({_first_names(unexpected)}); {fix}"
        )


def _first_names(names: Sequence[str], max_count: int = 3) -> str:
    """Join the first names for an error message."""
    return ", ".join([*names[:max_count], *(["..."] if len(names) > max_count else [])])


def find_start_token(tokenizer: Path, starts: tuple[str, ...]) -> int:
    """Return the id of the first of ``starts`` in the vocabulary of a tokenizer."""
    ids = token_ids(read_tokenizer(tokenizer))
    for start in starts:
        if start in ids:
            return int(ids[start])
    raise ConservatorError(f"{tokenizer} has no start token; expected one of: {', '.join(starts)}")


def stamp_of(folder: Path) -> tuple[tuple[int, int], ...]:
    """Return the modification times and sizes of the files of a model; empty if the folder cannot be read."""
    try:
        stats = [path.stat() for path in sorted(folder.iterdir()) if path.is_file()]
    except OSError:  # loading raises an error that names the file
        return ()
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)
