"""Bytes as tokens: the vocabulary of the built-in experts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies.utf8 import LOST, Utf8
from conservator.vocabularies.vocabulary import Encoded


class ByteVocabulary:
    """The 256 bytes, and a mask for a lost byte. The text must be valid UTF-8."""

    size: int = 256
    mask: int = LOST
    fingerprint: str = "bytes"
    constraint: Utf8 = Utf8()

    def encode(self, data: bytes) -> Encoded:
        """Return one token for each byte."""
        positions = np.arange(len(data))
        spans = np.stack([positions, positions + 1], axis=1)
        return Encoded(np.frombuffer(data, dtype=np.uint8).astype(np.int64), spans)

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Return the bytes of tokens (L,)."""
        return tokens.astype(np.uint8).tobytes()


BYTES = ByteVocabulary()
