"""Token bytes and lossless tokenization from a ``tokenizer.json`` of the Hugging Face tokenizers library."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import read_json
from conservator.vocabularies.bytes import BYTES
from conservator.vocabularies.tokens import Tokens
from conservator.vocabularies.wordpiece import make_wordpiece

SPACE = "▁"  # stands for a space in SentencePiece tokenizers
LOSSLESS_SPLITS = ("Isolated", "MergedWithNext", "MergedWithPrevious", "Contiguous")


def load_tokens(path: Path, size: int) -> Tokens:
    """Read a ``tokenizer.json``; see ``make_tokens``."""
    config = read_tokenizer(path)
    try:
        return make_tokens(config, size)
    except ConservatorError as error:
        raise ConservatorError(f"{path}: {error}") from error


def read_tokenizer(path: Path) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json``."""
    config = read_json(path)
    return config if isinstance(config, dict) else {}


def token_ids(config: dict[str, Any]) -> dict[str, int]:
    """Return the id of each token in the content of a ``tokenizer.json``."""
    added = {token["content"]: token["id"] for token in config.get("added_tokens", [])}
    return {**config["model"]["vocab"], **added}


def make_tokens(config: dict[str, Any], size: int) -> Tokens:
    """Return the tokens of a byte-pair tokenizer, with b"".join(token_bytes of tokenize(text)) == text.encode().

    Steps that change a text are removed: normal forms, a leading space, special tokens that occur in the text. A
    WordPiece tokenizer loses text; its tokens are ``WordPieceTokens``, which list the byte forms of each token.

    Args:
        config: the content of ``tokenizer.json``.
        size: V, the number of tokens of the network; tokens that the tokenizer lacks have no text.
    """
    from tokenizers import Tokenizer

    try:
        if config["model"].get("type") == "WordPiece":
            return make_wordpiece(config, size)
        lossless, is_byte_level = make_lossless(config)
        tokenizer = Tokenizer.from_str(json.dumps(lossless))
    except ConservatorError:
        raise
    except Exception as error:  # the library raises no more specific exception
        raise ConservatorError(f"this is not a tokenizer of the tokenizers library: {error}") from error
    added = {token["id"]: token for token in config.get("added_tokens", [])}
    alphabet = {character: byte for byte, character in enumerate(byte_characters())}
    token_bytes = [b""] * size
    for text, token in tokenizer.get_vocab(with_added_tokens=True).items():
        if token in added:
            form = b"" if added[token]["special"] else text.encode()
        elif is_byte_level:
            form = bytes(alphabet[character] for character in text) if set(text) <= set(alphabet) else b""
        else:
            form = sentencepiece_bytes(text)
        if token < size:
            token_bytes[token] = form
        elif form:
            raise ConservatorError(f"the tokenizer has a token {token}, but the network has only {size} tokens")
    if is_byte_level:
        return Tokens(token_bytes, byte_level_tokenize(tokenizer, token_bytes))
    return Tokens(token_bytes, sentencepiece_tokenize(tokenizer, config["model"]["vocab"]))


def byte_level_tokenize(tokenizer: Any, token_bytes: list[bytes]) -> Callable[[str], list[int]]:
    """Return the tokenization of a byte-level tokenizer; it refuses bytes without a token (rare control characters)."""
    known = {form[0] for form in token_bytes if len(form) == 1}

    def tokenize(text: str) -> list[int]:
        missing = set(text.encode()) - known
        if missing:
            raise ConservatorError(
                f"the text has bytes without a token: {', '.join(f'0x{byte:02X}' for byte in missing)}"
            )
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return tokenize


def sentencepiece_tokenize(tokenizer: Any, vocabulary: dict[str, int]) -> Callable[[str], list[int]]:
    """Return the tokenization of a SentencePiece tokenizer; a literal SPACE in a text becomes its byte tokens."""
    space_tokens = [vocabulary[f"<0x{byte:02X}>"] for byte in SPACE.encode()]

    def tokenize(text: str) -> list[int]:
        tokens: list[int] = []
        for index, part in enumerate(text.split(SPACE)):
            tokens += space_tokens if index else []
            tokens += tokenizer.encode(part, add_special_tokens=False).ids
        return tokens

    return tokenize


def sentencepiece_bytes(text: str) -> bytes:
    """Return the bytes of a SentencePiece token: ``<0x0A>`` is a byte, and SPACE is a space."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace(SPACE, " ").encode()


def byte_characters() -> list[str]:
    """Return the character for each byte in byte-level tokenizers: itself if printable, else one from U+0100 on."""
    printable = [byte for byte in range(BYTES.size) if 33 <= byte <= 126 or (byte >= 161 and byte != 173)]
    others = iter(range(BYTES.size, 2 * BYTES.size))
    return [chr(byte if byte in printable else next(others)) for byte in range(BYTES.size)]


def make_lossless(config: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Remove the steps of a tokenizer that change texts; return the rest, and whether it is byte-level.

    Added tokens that are not special stand for text, and remain.

    Raises:
        ConservatorError: the tokenizer is not lossless without these steps.
    """
    model = config["model"]
    if model.get("type") != "BPE":
        raise ConservatorError(f"the tokenizer model must be 'BPE' or 'WordPiece', got {model.get('type')!r}")
    for setting in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(setting):
            raise ConservatorError(f"the tokenizer model must have no {setting}, got {model[setting]!r}")
    steps = list(flatten(config.get("pre_tokenizer"), "pretokenizers"))
    is_byte_level = any(step["type"] == "ByteLevel" for step in steps)
    normalizers = [step for step in flatten(config.get("normalizer"), "normalizers") if not is_removable(step)]
    replacements = [step for step in normalizers if step["type"] == "Replace" and step["pattern"] == {"String": " "}]
    if (
        any(step["content"] != SPACE for step in replacements)
        or len(replacements) < len(normalizers)
        or (is_byte_level and normalizers)
    ):
        raise ConservatorError(
            f"the normalizer {normalizers[0]['type']} changes the text; accepted: NFC, Prepend, and {SPACE} for spaces"
        )
    metaspace = any(step["type"] == "Metaspace" for step in steps)
    fallback = all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(BYTES.size)) and model.get("byte_fallback")
    if not is_byte_level and not (fallback and (replacements or metaspace)):
        raise ConservatorError("the tokenizer must be byte-level, or SentencePiece with byte fallback")
    added = [token for token in config.get("added_tokens", []) if not token["special"]]
    for token in added:
        if token["lstrip"] or token["rstrip"]:
            raise ConservatorError(
                f"the added token {token['content']!r} strips adjacent spaces; lstrip and rstrip must be false"
            )
    lossless = {**config, "truncation": None, "padding": None, "post_processor": None, "added_tokens": added}
    lossless["normalizer"] = {"type": "Sequence", "normalizers": replacements} if replacements else None
    lossless["pre_tokenizer"] = (
        {"type": "Sequence", "pretokenizers": [without_leading_space(step) for step in steps]} if steps else None
    )
    return lossless, is_byte_level


def flatten(step: dict[str, Any] | None, name: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of nested sequences, in order."""
    if step is not None and step["type"] == "Sequence":
        for inner in step[name]:
            yield from flatten(inner, name)
    elif step is not None:
        yield step


def is_removable(step: dict[str, Any]) -> bool:
    """Whether a normalizer changes few texts (NFC), or prepends a space."""
    return bool(step["type"] == "NFC" or (step["type"] == "Prepend" and step["prepend"] == SPACE))


def without_leading_space(step: dict[str, Any]) -> dict[str, Any]:
    """Return a pre-tokenizer step that does not prepend a space."""
    kind = step["type"]
    if kind == "ByteLevel":
        return {**step, "add_prefix_space": False}
    if kind == "Metaspace" and step["replacement"] == SPACE:
        return {**step, "prepend_scheme": "never"}
    if kind == "Digits" or (kind == "Split" and step["behavior"] in LOSSLESS_SPLITS):
        return step
    raise ConservatorError(f"the pre-tokenizer {kind} may lose text; accepted: ByteLevel, Digits, Metaspace, Split")
