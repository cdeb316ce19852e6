"""Tokenizers by byte pairs, as ``tokenizer.json``: trained on texts, or read from a folder."""

import json
from collections.abc import Sequence
from pathlib import Path

from conservator.errors import ConservatorError
from conservator.system.files import LARGEST_JSON, read_file, read_json
from conservator.vocabularies import BYTES, Tokens
from conservator.vocabularies.hf_tokenizer import byte_characters, make_tokens

NAME = "tokenizer.json"
END = "<|endoftext|>"  # of GPT-2's tokens, the one that stands for no text


def train_tokenizer(documents: Sequence[bytes], size: int) -> bytes:
    """Train a byte-level tokenizer of ``size`` tokens, all of which stand for text."""
    if size <= BYTES.size:
        raise ConservatorError(f"a vocabulary of {size} tokens is too small: the {BYTES.size} bytes come first")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=byte_characters(), show_progress=False)
    tokenizer.train_from_iterator((text.decode(errors="ignore") for text in documents), trainer)
    found = tokenizer.get_vocab_size()
    if found < size:
        raise ConservatorError(f"the texts give only {found} tokens of {size}; give more text, or ask for fewer")
    return bytes(tokenizer.to_str().encode())


def read_tokenizer(path: Path) -> bytes:
    """Read a ``tokenizer.json``, of that name or in a folder; or GPT-2's ``encoder.json`` and ``vocab.bpe`` in one."""
    if (path / "encoder.json").is_file() and (path / "vocab.bpe").is_file():
        return read_pairs(path)
    file = path / NAME if path.is_dir() else path
    try:
        return read_file(file, LARGEST_JSON)
    except ConservatorError as error:
        raise ConservatorError(
            f"no tokenizer at {path}: {error}; accepted are a {NAME}, a folder with one, a folder with "
            "encoder.json and vocab.bpe"
        ) from error


def read_pairs(folder: Path) -> bytes:
    """Make a ``tokenizer.json`` of the files of GPT-2: the number of each token, and the pairs by rank."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    try:
        numbers = read_json(folder / "encoder.json")
        lines = read_file(folder / "vocab.bpe", LARGEST_JSON).decode().splitlines()
        pairs = [line.split() for line in lines if line and not line.startswith("#version")]
        merges = [(first, second) for first, second in pairs]
        tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=merges))
    except ValueError as error:
        raise ConservatorError(f"{folder} holds no tokenizer: {error}") from error
    except Exception as error:  # the library raises nothing more special
        raise ConservatorError(f"{folder}: encoder.json and vocab.bpe do not fit: {error}") from error
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if END in numbers:
        tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return bytes(tokenizer.to_str().encode())


def tokens_of(tokenizer: bytes) -> Tokens:
    """The vocabulary of a ``tokenizer.json``: as many tokens as it has numbers."""
    try:
        described = json.loads(tokenizer)
        numbers = [*described["model"]["vocab"].values(), *(token["id"] for token in described["added_tokens"])]
        return make_tokens(described, max(numbers) + 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConservatorError(f"{NAME} is no tokenizer by byte pairs: {error!r}") from error
