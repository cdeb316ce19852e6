"""Tokens of several bytes: their bytes, the tokenization of a text, and the tokens that match a damaged text."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Ints
from conservator.errors import ConservatorError
from conservator.vocabularies.bytes import BYTES
from conservator.vocabularies.vocabulary import Encoded

MAX_TOKEN_BYTES = 16  # bytes: longer tokens are not proposed for damaged text [untuned]
PRIVATE_USE = "\ue000\uf8ff\U000f0000\U0010fffd"  # characters for private use, which are very rare in text


class Tokens:
    """A vocabulary of V tokens, each of which stands for a string of bytes.

    Most texts have many tokenizations. A model is trained on one of them, the canonical one, and gives hardly any
    probability to the others. If ``tokenize`` is given, only canonical tokenizations are considered, so the probability
    of a text is a lower bound. Without it, all tokenizations are considered, and the probability is exact.

    R rows list the byte forms of at most MAX_TOKEN_BYTES bytes: ``token_ids``, ``lengths`` and ``table``.

    Attributes:
        token_bytes: the bytes of each token; ``b""`` for a special token.
    """

    def __init__(self, token_bytes: Sequence[bytes], tokenize: Callable[[str], list[int]] | None = None) -> None:
        """Store the bytes of each token, and the function for canonical tokenization."""
        self.token_bytes = tuple(token_bytes)
        self._tokenize = tokenize
        self._follows: dict[tuple[int, int], bool] = {}

    @property
    def size(self) -> int:
        """V, the number of tokens."""
        return len(self.token_bytes)

    @property
    def mask(self) -> int:
        """The id after the last token, independent of the mask id of a network."""
        return len(self.token_bytes)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the token bytes."""
        data = b"".join(len(form).to_bytes(4, "big") + form for form in self.token_bytes)
        return f"tokens {hashlib.sha256(data).hexdigest()}"

    @property
    def constraint(self) -> None:
        """Any sequence is allowed."""
        return None

    def encode(self, data: bytes) -> Encoded:
        """Tokenize a text, with the byte span of each token."""
        try:
            tokens = self.tokenize(data.decode())
        except UnicodeDecodeError as error:
            raise ConservatorError(f"the text must be UTF-8 to be tokenized: {error}") from error
        ends = np.cumsum([len(self.token_bytes[token]) for token in tokens], dtype=np.int64)
        return Encoded(np.array(tokens, dtype=np.int64), np.stack([np.concatenate([[0], ends])[:-1], ends], axis=1))

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Return the bytes of tokens (L,)."""
        return b"".join(self.token_bytes[token] for token in tokens.tolist())

    def tokenize(self, text: str) -> list[int]:
        """Tokenize a text: canonically if possible, else greedily by the longest matching token from the left."""
        if self._tokenize is not None:
            return self._tokenize(text)
        data, tokens = text.encode(), []
        while data:
            row = max(self.matching_rows(list(data[: self.max_length])), key=lambda row: int(self.lengths[row]))
            tokens.append(int(self.token_ids[row]))
            data = data[int(self.lengths[row]) :]
        return tokens

    def follows(self, first: int, second: int) -> bool:
        """Whether the second token can follow the first in the canonical tokenization of some text.

        With byte-pair encoding alone, a tokenization is canonical if all pairs of neighbours are. Most tokenizers first
        split a text into words, which depends on the surrounding text: the last space of a run belongs to the next
        word, ``'s`` is a word unless another punctuation mark precedes it. So a pair is also tokenized between a few
        neighbours, and a tokenization whose pairs all follow each other may still not be canonical. Pairs that start or
        end within a character are not checked; the result is True.
        """
        if self._tokenize is None:
            return True
        pair = (first, second)
        if pair not in self._follows:
            self._follows[pair] = self._may_follow(first, second)
        return self._follows[pair]

    def _may_follow(self, first: int, second: int) -> bool:
        try:
            text = (self.token_bytes[first] + self.token_bytes[second]).decode()
        except UnicodeDecodeError:
            return True
        return any(self._is_pair(before, text, after, first, second) for before, after in self._neighbours(text))

    def _neighbours(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield texts before and after ``text`` that can change its tokenization, the most common first."""
        yield "", ""
        if text[-1:].isspace():
            yield from (("", "x"), ("", self._separator))
        if text and not text[0].isalnum() and not text[0].isspace():
            yield self._separator, ""

    def _is_pair(self, before: str, text: str, after: str, first: int, second: int) -> bool:
        """Whether ``text`` is tokenized as the two tokens between its neighbours."""
        assert self._tokenize is not None
        tokens, size = self._tokenize(before + text + after), 0
        for index, token in enumerate(tokens):
            if size == len(before.encode()):
                return tokens[index : index + 2] == [first, second]
            size += len(self.token_bytes[token])
        return False

    @cached_property
    def _separator(self) -> str:
        """A character, neither a letter nor a space, that shares no token with other characters."""
        assert self._tokenize is not None
        for character in PRIVATE_USE:
            forms = [self.token_bytes[token] for token in self._tokenize(f" {character}'")]
            if forms[:1] == [b" "] and forms[-1:] == [b"'"]:
                return character
        return PRIVATE_USE[0]

    @cached_property
    def byte_forms(self) -> list[tuple[bytes, int]]:
        """(bytes, token) for each byte form of at most MAX_TOKEN_BYTES bytes, sorted: the R rows."""
        return sorted((form, token) for token, form in enumerate(self.token_bytes) if 0 < len(form) <= MAX_TOKEN_BYTES)

    @cached_property
    def token_ids(self) -> Ints:
        """(R,) the token of each row; a token with several byte forms has several rows."""
        return np.array([token for _, token in self.byte_forms], dtype=np.int64)

    @cached_property
    def lengths(self) -> Ints:
        """(R,) the number of bytes of each row."""
        return np.array([len(form) for form, _ in self.byte_forms], dtype=np.int64)

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(R, MAX_TOKEN_BYTES) the bytes of each row, padded with 0."""
        rows = [np.frombuffer(form.ljust(MAX_TOKEN_BYTES, b"\0"), dtype=np.uint8) for form, _ in self.byte_forms]
        return np.stack(rows)

    @cached_property
    def max_length(self) -> int:
        """The largest number of bytes of a row."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def _first_rows(self) -> Ints:
        """(257,) the first row that starts with each byte, and R."""
        return np.searchsorted(self.table[:, 0], np.arange(BYTES.size + 1))

    def matching_rows(self, pattern: Sequence[int]) -> Ints:
        """Return the rows whose bytes match the start of ``pattern``, in which the mask matches any byte."""
        any_first = pattern[0] == BYTES.mask
        low, high = (0, len(self.token_ids)) if any_first else self._first_rows[pattern[0] : pattern[0] + 2]
        rows = np.arange(low, high)[self.lengths[low:high] <= len(pattern)]
        for offset, byte in enumerate(pattern[: self.max_length]):
            if offset and byte != BYTES.mask:
                rows = rows[(self.lengths[rows] <= offset) | (self.table[rows, offset] == byte)]
        return rows
