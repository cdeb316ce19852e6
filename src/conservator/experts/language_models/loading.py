"""Load language models: those that were added, by name; others from folders, GGUF files and the hub's cache."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conservator.errors import ConservatorError
from conservator.experts.language_models.catalogue import CATALOGUE
from conservator.experts.language_models.installed import PARTS, added_models, hash_files, is_model, model_folder
from conservator.system.files import check_files, is_file, is_folder, real_path
from conservator.vocabularies.hf_tokenizer import read_tokenizer

if TYPE_CHECKING:
    from conservator.experts.language_models.model import LanguageModel
    from conservator.experts.language_models.precision import Precision

HUB = "hf:"
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def load_language_model(
    name: str | Path, precision: "Precision | None" = None, *, fetch: bool = False
) -> "LanguageModel":
    """Load a language model of a known family. No code of others is run, and no pickled weights are read.

    Args:
        name: the name of a model that was added (``conservator experts add``), ``hf:OWNER/NAME``, a folder with
            config.json, tokenizer.json and safetensors, or a ``.gguf`` file, which is converted once.
        precision: how it computes; by default what ``choose_precision`` says.
        fetch: whether ``hf:`` may download; else it must be in the hub's cache.
    """
    folder = find_model(name, fetch=fetch)
    try:
        from conservator.experts.language_models.precision import choose_precision

        return _load_once(real_path(folder), stamp_of(folder), precision or choose_precision())
    except ImportError as error:
        raise needs_extra(error) from error


def needs_extra(error: ImportError, extra: str = "lm") -> ConservatorError:
    """What to say if a package of an extra is missing."""
    return ConservatorError(f'{error.name} is not installed; pip install "conservator[{extra}]" brings it')


def find_model(name: str | Path, *, fetch: bool = False) -> Path:
    """The folder of a model by its name, repository, folder or GGUF file; see ``load_language_model``."""
    given = str(name)
    if given.startswith(HUB):
        found = find_repository(given.removeprefix(HUB), (*PARTS, *WEIGHTS), fetch=fetch)
        if not is_model(found):
            raise ConservatorError(f"{given} lacks some of {', '.join(PARTS)} and *.safetensors")
        return found
    if isinstance(name, str) and given in [model.name for model in added_models()]:
        return model_folder(given)
    path = Path(name)
    if path.suffix == ".gguf" and is_file(path):
        from conservator.experts.language_models.fetching import add_gguf

        return add_gguf(path)
    if is_folder(path):
        if not is_model(path):
            raise ConservatorError(f"no language model in {path}: it needs {', '.join(PARTS)} and *.safetensors")
        return path
    if given in CATALOGUE:
        raise ConservatorError(f"{given} was not added yet; conservator experts add {given} fetches it")
    names = ", ".join(model.name for model in added_models()) or "none"
    raise ConservatorError(
        f"no language model {shortened(given)!r}: neither added (added: {names}; known: {', '.join(CATALOGUE)}) "
        "nor hf:OWNER/NAME, a folder or a .gguf file"
    )


def shortened(name: str, most: int = 80) -> str:
    """A name as an error shows it."""
    return name if len(name) <= most else f"{name[:most]}..."


def find_repository(repository: str, wanted: Sequence[str], *, fetch: bool = False, extra: str = "lm") -> Path:
    """The folder of a repository in the hub's cache.

    Args:
        repository: ``OWNER/NAME``.
        wanted: which of its files are fetched.
        fetch: whether they may be downloaded; else they must be in the cache.
        extra: the extra that brings what reads them.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise needs_extra(error, extra) from error
    try:
        return Path(snapshot_download(repository, allow_patterns=list(wanted), local_files_only=not fetch))
    except Exception as error:  # the hub's, of the network's and of names
        how = "it could not be fetched" if fetch else f"hf download {repository} fetches it"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConservatorError(f"{HUB}{repository} is not in the hub's cache; {how} ({reason})") from error


@lru_cache(maxsize=2)
def _load_once(folder: Path, stamp: tuple[tuple[int, int], ...], precision: "Precision") -> "LanguageModel":
    """Load a model; ``stamp`` is part of the cache's key, so that a folder that has changed is read again."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from conservator.experts.language_models.convert import quietly
    from conservator.experts.language_models.families import family_of
    from conservator.experts.language_models.model import LanguageModel
    from conservator.vocabularies.hf_tokenizer import load_tokens

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    check_files(folder)
    try:
        with quietly():
            config = AutoConfig.from_pretrained(str(folder), **local)
            family = family_of(config)
            network, loading = AutoModelForCausalLM.from_pretrained(
                str(folder),
                config=config,
                dtype=getattr(torch, precision),
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, with an error that names the tensors
                **local,
            )
            check_loaded(loading)
    except ConservatorError as error:
        raise ConservatorError(f"{folder}: {error}") from error
    except Exception as error:  # of json, safetensors and transformers
        raise ConservatorError(f"cannot load the language model in {folder}: {error}") from error
    tokenizer = folder / "tokenizer.json"
    tokens = load_tokens(tokenizer, network.get_output_embeddings().weight.shape[0])
    start = find_start(tokenizer, family.starts)
    return LanguageModel(
        network, tokens, start, folder.name, fingerprint=hash_files(sorted(folder.glob("*.safetensors")))
    )


def check_loaded(
    loading: dict[str, Any], fix: str = "copy all *.safetensors files of the model, and its own config.json, there"
) -> None:
    """Raise a ConservatorError unless the weights are those of the network.

    transformers initialises at random what is missing or has another shape. Tied weights do not count as missing.

    Args:
        loading: what transformers reports of the loading.
        fix: what the user can do.
    """
    missing = sorted(loading["missing_keys"])
    if missing:
        raise ConservatorError(f"the weights lack {len(missing)} tensors ({_some(missing)}); {fix}")
    other = [f"{name}: {list(stored)} instead of {list(wanted)}" for name, stored, wanted in loading["mismatched_keys"]]
    if other:
        raise ConservatorError(f"{len(other)} tensors have shapes that the network has not ({_some(other)}); {fix}")
    unknown = sorted(name for name in loading["unexpected_keys"] if name.endswith(".weight"))
    if unknown:
        raise ConservatorError(
            f"the weights have {len(unknown)} tensors that the network has not ({_some(unknown)}); {fix}"
        )


def _some(names: Sequence[str], most: int = 3) -> str:
    """The first few names."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def find_start(tokenizer: Path, starts: tuple[str, ...]) -> int:
    """The number of the first of some tokens that a tokenizer has."""
    described = read_tokenizer(tokenizer)
    numbers = described["model"]["vocab"] | {token["content"]: token["id"] for token in described["added_tokens"]}
    for start in starts:
        if start in numbers:
            return int(numbers[start])
    raise ConservatorError(f"{tokenizer} has no token to begin a text with; known for its family: {', '.join(starts)}")


def stamp_of(folder: Path) -> tuple[tuple[int, int], ...]:
    """The times at which the files of a model were written, and their sizes."""
    found = [path.stat() for path in sorted(folder.iterdir()) if path.is_file()]
    return tuple((one.st_mtime_ns, one.st_size) for one in found)
