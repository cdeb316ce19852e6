"""Byte-pair tokenizers in the format ``tokenizer.json``: trained on texts, or loaded."""

import json
from collections.abc import Sequence
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.system.files import MAX_JSON_BYTES, read_file, read_json
from conservator.vocabularies import BYTES, Tokens
from conservator.vocabularies.hf_tokenizer import byte_characters, make_tokens, token_ids

NAME = "tokenizer.json"
END = "<|endoftext|>"  # special token of GPT-2


def train_tokenizer(documents: Sequence[bytes], size: int) -> bytes:
    """Train a byte-level tokenizer of ``size`` tokens without special tokens."""
    if size <= BYTES.size:
        raise ConservatorError(f"the vocabulary must have more than {BYTES.size} tokens, got {size}")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=byte_characters(), show_progress=False)
    tokenizer.train_from_iterator((text.decode(errors="ignore") for text in documents), trainer)
    trained_size = tokenizer.get_vocab_size()
    if trained_size < size:
        raise ConservatorError(
            f"the texts are sufficient for {trained_size} of {size} tokens; use more text or a smaller vocabulary"
        )
    return bytes(tokenizer.to_str().encode())


def read_tokenizer(path: Path) -> bytes:
    """Load a ``tokenizer.json`` from a file or folder, or ``encoder.json`` and ``vocab.bpe`` of GPT-2 from a folder."""
    if (path / "encoder.json").is_file() and (path / "vocab.bpe").is_file():
        return convert_gpt2_files(path)
    file = path / NAME if path.is_dir() else path
    try:
        return read_file(file, MAX_JSON_BYTES)
    except ConservatorError as error:
        raise ConservatorError(
            f"no tokenizer at {path}: {error}; expected a {NAME}, a folder with one, or a folder with encoder.json and "
            "vocab.bpe"
        ) from error


def convert_gpt2_files(folder: Path) -> bytes:
    """Convert the files of GPT-2 to a ``tokenizer.json``: token ids, and byte pairs by rank."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    try:
        ids = read_json(folder / "encoder.json")
        lines = read_file(folder / "vocab.bpe", MAX_JSON_BYTES).decode().splitlines()
        pairs = [line.split() for line in lines if line and not line.startswith("#version")]
        merges = [(first, second) for first, second in pairs]
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
    except ValueError as error:
        raise ConservatorError(f"{folder} does not contain a tokenizer: {error}") from error
    except Exception as error:  # the library raises no more specific exception
        raise ConservatorError(f"{folder}: encoder.json and vocab.bpe are inconsistent: {error}") from error
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if END in ids:
        tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return bytes(tokenizer.to_str().encode())


def tokens_of(tokenizer: bytes) -> Tokens:
    """Create the vocabulary of a ``tokenizer.json``; its size is the largest token id plus one."""
    try:
        content = json.loads(tokenizer)
        return make_tokens(content, max(token_ids(content).values()) + 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConservatorError(f"{NAME} is not a byte-pair tokenizer: {error!r}") from error
