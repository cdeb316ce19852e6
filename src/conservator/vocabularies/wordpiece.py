"""WordPiece tokens, as in BERT: words and parts of words. The tokenizer loses white space, and possibly case."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.vocabularies.tokens import MAX_TOKEN_BYTES, Tokens
from conservator.vocabularies.vocabulary import Encoded

CONTINUATION_PREFIX = "##"  # marks a token that continues a word
SPACE = b" "


@dataclass(frozen=True)
class WordPieceToken:
    """The text of a WordPiece token.

    Attributes:
        text: its letters; "" for a special token.
        begins: whether it begins a word; else it continues one.
        joins: whether another token can continue its word. Punctuation such as a comma is always a separate word.
        cases: all upper- and lower-case variants that are tokenized as this token.
    """

    text: str = ""
    begins: bool = True
    joins: bool = False
    cases: tuple[str, ...] = ()


TokenizeWithSpans = Callable[[str], tuple[list[int], list[tuple[int, int]]]]  # token ids, and spans of characters


class WordPieceTokens(Tokens):
    """The vocabulary of a WordPiece tokenizer, which drops white space, and possibly case and accents.

    A token therefore has several byte forms. A token that begins a word has forms with and without a leading space; a
    token that continues a word has its letters only. If the tokenizer lowercases, the forms with an upper-case first
    letter and in upper case are included. Other white space, and accents that the tokenizer drops, are in no byte form:
    they can be tokenized, but not predicted. ``token_bytes`` are the letters of a token, without a space.
    """

    def __init__(self, words: Sequence[WordPieceToken], tokenize: TokenizeWithSpans) -> None:
        """Store the text of each token, and the function that tokenizes a text with the spans of characters."""
        super().__init__([word.text.encode() for word in words], lambda text: tokenize(text)[0])
        self.words = tuple(words)
        self._tokenize_with_spans = tokenize
        self._entries = {(word.text, word.begins) for word in words if word.text}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the words."""
        record = json.dumps([[word.text, word.begins, word.cases] for word in self.words])
        return f"words {hashlib.sha256(record.encode()).hexdigest()}"

    @cached_property
    def byte_forms(self) -> list[tuple[bytes, int]]:
        """(bytes, token) for each byte form of at most MAX_TOKEN_BYTES bytes, sorted."""
        rows = {
            (before + case.encode(), token)
            for token, word in enumerate(self.words)
            for case in word.cases
            for before in ((b"", SPACE) if word.begins else (b"",))
        }
        return sorted(row for row in rows if len(row[0]) <= MAX_TOKEN_BYTES)

    def encode(self, data: bytes) -> Encoded:
        """Tokenize a text. Bytes between spans are white space or control characters; unknown words are one token."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ConservatorError(f"the text must be UTF-8 to be tokenized: {error}") from error
        tokens, spans = self._tokenize_with_spans(text)
        offsets = np.array([0, *accumulate(len(character.encode()) for character in text)], dtype=np.int64)
        character_spans = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return Encoded(np.array(tokens, dtype=np.int64), offsets[character_spans])

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Return the words of tokens (L,), with one space between them."""
        words = [self.words[token] for token in tokens.tolist()]
        texts = [(" " if index and word.begins else "") + word.text for index, word in enumerate(words)]
        return "".join(texts).encode()

    def follows(self, first: int, second: int) -> bool:
        """Whether the second token can follow the first: words are tokenized greedily by the longest token."""
        left, right = self.words[first], self.words[second]
        if right.begins or not left.text:
            return True
        longer = ((left.text + right.text[:size], left.begins) for size in range(1, len(right.text) + 1))
        return left.joins and not any(entry in self._entries for entry in longer)


def make_wordpiece(config: dict[str, Any], size: int) -> Tokens:
    """Return the tokens of a WordPiece tokenizer. If every token is one character, so is every token of a text.

    Args:
        config: the content of ``tokenizer.json``.
        size: V, the number of tokens of the network; tokens that the tokenizer lacks have no text.
    """
    from tokenizers import Tokenizer

    model = config["model"]
    prefix = model.get("continuing_subword_prefix")
    if prefix != CONTINUATION_PREFIX:
        raise ConservatorError(f"continuing_subword_prefix must be '##', got {prefix!r}")
    for component, accepted in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        kind = (config.get(component) or {}).get("type")
        if kind != accepted:
            raise ConservatorError(f"the {component} of a WordPiece tokenizer must be {accepted}, got {kind}")
    plain = {**config, "truncation": None, "padding": None, "post_processor": None, "added_tokens": []}
    tokenizer = Tokenizer.from_str(json.dumps(plain))
    added = {token["id"] for token in config.get("added_tokens", [])}
    texts = {token: text for text, token in model["vocab"].items() if token not in added}
    if texts and max(texts) >= size:
        raise ConservatorError(f"the tokenizer has a token {max(texts)}, but the network has only {size} tokens")
    if all(len(text) == 1 for text in texts.values()):
        return make_character_tokens(texts, size)
    words = [WordPieceToken()] * size
    for token, text in texts.items():
        words[token] = describe_token(tokenizer, text)

    def tokenize(text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    return WordPieceTokens(words, tokenize)


def describe_token(tokenizer: Any, text: str) -> WordPieceToken:
    """Return the text of a token; empty for tokens that the tokenizer never produces, such as ``[unused1]``."""

    def split(text: str) -> list[str]:
        return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))]

    begins, letters = not text.startswith(CONTINUATION_PREFIX), text.removeprefix(CONTINUATION_PREFIX)
    before, after = ("", "a") if begins else ("a", "")
    joins = split(before + letters + after) == [before + letters + after]
    if not letters or not (joins or (begins and split(letters) == [letters])):
        return WordPieceToken()
    cases = dict.fromkeys(
        [letters, letters[0].upper() + letters[1:], letters.upper()] if begins else [letters, letters.upper()]
    )
    accepted = tuple(case for case in cases if split(before + case) == [before + letters])
    return WordPieceToken(letters, begins, joins, accepted)


def make_character_tokens(texts: dict[int, str], size: int) -> Tokens:
    """Return the vocabulary of single-character tokens, such as amino acids; its tokenization loses no text."""
    token_of = {text: token for token, text in texts.items()}

    def tokenize(text: str) -> list[int]:
        check_characters(text, token_of)
        return [token_of[character] for character in text]

    return Tokens([texts.get(token, "").encode() for token in range(size)], tokenize)


def check_characters(text: str, known: Iterable[str]) -> None:
    """Raise an error unless every character of ``text`` has a token."""
    missing = sorted(set(text) - set(known))
    if missing:
        raise ConservatorError(
            f"the text has characters without a token: {', '.join(map(repr, missing[:9]))}; known: "
            f"{''.join(sorted(known))}"
        )
