"""The bytes of each token of a tokenizer, and cuts of a text that give its bytes back exactly, or its words."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conservator.errors import ConservatorError
from conservator.system.files import read_json
from conservator.vocabularies.bytes import BYTES
from conservator.vocabularies.tokens import Tokens
from conservator.vocabularies.wordpiece import make_words

SPACE = "▁"  # what stands for a space in tokenizers of the sentencepiece kind
SPLITS = ("Isolated", "MergedWithNext", "MergedWithPrevious", "Contiguous")  # that lose no text


def load_tokens(path: Path, size: int) -> Tokens:
    """Read a ``tokenizer.json``; see ``make_tokens``."""
    described = read_tokenizer(path)
    try:
        return make_tokens(described, size)
    except ConservatorError as error:
        raise ConservatorError(f"{path}: {error}") from error


def read_tokenizer(path: Path) -> dict[str, Any]:
    """What a ``tokenizer.json`` holds."""
    found = read_json(path)
    return found if isinstance(found, dict) else {}


def make_tokens(described: dict[str, Any], size: int) -> Tokens:
    """The tokens of a tokenizer by byte pairs, for which b"".join(pieces of cut(text)) == text.encode().

    What would change a text is left out: normal forms, a space before it, special tokens that it spells. A tokenizer by
    words (WordPiece) loses text, and its tokens are ``Words``, which say what each may stand for.

    Args:
        described: what ``tokenizer.json`` holds.
        size: V, the number of tokens that the network has; those that the tokenizer lacks stand for no text.
    """
    from tokenizers import Tokenizer

    try:
        if described["model"].get("type") == "WordPiece":
            return make_words(described, size)
        exact, bytewise = without_changes(described)
        tokenizer = Tokenizer.from_str(json.dumps(exact))
    except ConservatorError:
        raise
    except Exception as error:  # the library raises nothing more special
        raise ConservatorError(f"it is no tokenizer of the tokenizers library: {error}") from error
    added = {token["id"]: token for token in described.get("added_tokens", [])}
    alphabet = {sign: byte for byte, sign in enumerate(byte_signs())}
    pieces = [b""] * size
    for token, number in tokenizer.get_vocab(with_added_tokens=True).items():
        if number in added:
            piece = b"" if added[number]["special"] else token.encode()
        elif bytewise:
            piece = bytes(alphabet[sign] for sign in token) if set(token) <= set(alphabet) else b""
        else:
            piece = sentence_piece(token)
        if number < size:
            pieces[number] = piece
        elif piece:
            raise ConservatorError(f"it has a token {number}, the network only {size}")
    if bytewise:
        return Tokens(pieces, encode_bytes(tokenizer, pieces))
    return Tokens(pieces, encode_sentences(tokenizer, described["model"]["vocab"]))


def encode_bytes(tokenizer: Any, pieces: list[bytes]) -> Callable[[str], list[int]]:
    """How a byte-level tokenizer cuts a text; one with a byte that has no token (a rare control sign) is refused."""
    known = {piece[0] for piece in pieces if len(piece) == 1}

    def encode(text: str) -> list[int]:
        missing = set(text.encode()) - known
        if missing:
            raise ConservatorError(
                f"the text has bytes without a token: {', '.join(f'0x{one:02X}' for one in missing)}"
            )
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return encode


def encode_sentences(tokenizer: Any, vocabulary: dict[str, int]) -> Callable[[str], list[int]]:
    """How a tokenizer of the sentencepiece kind cuts a text; the sign for a space in a text is spelt in bytes."""
    sign = [vocabulary[f"<0x{byte:02X}>"] for byte in SPACE.encode()]

    def encode(text: str) -> list[int]:
        found: list[int] = []
        for place, part in enumerate(text.split(SPACE)):
            found += sign if place else []
            found += tokenizer.encode(part, add_special_tokens=False).ids
        return found

    return encode


def sentence_piece(token: str) -> bytes:
    """The bytes of a token of the sentencepiece kind: ``<0x0A>`` is a byte, the sign for a space a space."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace(SPACE, " ").encode()


def byte_signs() -> list[str]:
    """The printable sign that stands for each byte in byte-level tokenizers: its own, or one from U+0100 on."""
    own = [byte for byte in range(BYTES.size) if 33 <= byte <= 126 or (byte >= 161 and byte != 173)]
    others = iter(range(BYTES.size, 2 * BYTES.size))
    return [chr(byte if byte in own else next(others)) for byte in range(BYTES.size)]


def without_changes(described: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A tokenizer without what changes texts, and whether it is byte-level; raise a ConservatorError if none is left.

    Tokens that are added but not special stand for text, and stay.
    """
    model = described["model"]
    if model.get("type") != "BPE":
        raise ConservatorError(f"its model is {model.get('type')!r}; accepted: 'BPE', 'WordPiece'")
    for setting in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(setting):
            raise ConservatorError(f"its model has a {setting}; accepted: none")
    steps = list(flat(described.get("pre_tokenizer"), "pretokenizers"))
    bytewise = any(step["type"] == "ByteLevel" for step in steps)
    normal = [step for step in flat(described.get("normalizer"), "normalizers") if not removable(step)]
    spaced = [step for step in normal if step["type"] == "Replace" and step["pattern"] == {"String": " "}]
    if any(step["content"] != SPACE for step in spaced) or len(spaced) < len(normal) or (bytewise and normal):
        raise ConservatorError(
            f"it changes a text by {normal[0]['type']}; accepted: NFC, Prepend, and {SPACE} for spaces"
        )
    metaspace = any(step["type"] == "Metaspace" for step in steps)
    fallback = all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(BYTES.size)) and model.get("byte_fallback")
    if not bytewise and not (fallback and (spaced or metaspace)):
        raise ConservatorError("it is neither byte-level nor of the sentencepiece kind with all bytes")
    added = [token for token in described.get("added_tokens", []) if not token["special"]]
    for token in added:
        if token["lstrip"] or token["rstrip"]:
            raise ConservatorError(
                f"its token {token['content']!r} takes the spaces beside it; accepted: none that does"
            )
    exact = {**described, "truncation": None, "padding": None, "post_processor": None, "added_tokens": added}
    exact["normalizer"] = {"type": "Sequence", "normalizers": spaced} if spaced else None
    exact["pre_tokenizer"] = (
        {"type": "Sequence", "pretokenizers": [plain_step(step) for step in steps]} if steps else None
    )
    return exact, bytewise


def flat(step: dict[str, Any] | None, name: str) -> Iterator[dict[str, Any]]:
    """The steps of a sequence of sequences, in order."""
    if step is not None and step["type"] == "Sequence":
        for one in step[name]:
            yield from flat(one, name)
    elif step is not None:
        yield step


def removable(step: dict[str, Any]) -> bool:
    """Whether a normalizer only brings texts into a form in which most are anyway, or puts a space before them."""
    return bool(step["type"] == "NFC" or (step["type"] == "Prepend" and step["prepend"] == SPACE))


def plain_step(step: dict[str, Any]) -> dict[str, Any]:
    """A step before the model, without the space that it puts before a text."""
    kind = step["type"]
    if kind == "ByteLevel":
        return {**step, "add_prefix_space": False}
    if kind == "Metaspace" and step["replacement"] == SPACE:
        return {**step, "prepend_scheme": "never"}
    if kind == "Digits" or (kind == "Split" and step["behavior"] in SPLITS):
        return step
    raise ConservatorError(f"it cuts a text by {kind}, which may lose some of it; accepted: ByteLevel, Digits, Split")
