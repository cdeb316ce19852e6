"""Characters as tokens: the vocabulary of experts that restore text without its non-ASCII characters."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies.character_set import AllowedTokens
from conservator.vocabularies.utf8 import ASCII, LOST
from conservator.vocabularies.vocabulary import Encoded

# The non-ASCII characters that have a token, in the order of their tokens.
REPERTOIRE = (
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþœšž"  # windows-1252, lower case
    "ÀÁÂÃÄÅÆÇÈÉÊÍÎÑÒÓÔÕÖØÙÚÜÝÞŒŠŽ"  # and upper case
    "āăąćčďđēėęěğģīįıķľļłńņňőřśşșťţțūůűųźż"  # the other one-byte encodings of Latin script, lower case
    "ĀĂĄĆČĎĐĒĖĘĚĞĪĮİĽŁŐŘŚŞȘȚŪŹŻ"  # and upper case
    "‘’‚“”„«»–—…•·¡¿\u00a0€£°§©®™²³ºª½¼±×µ´"  # noqa: RUF001, punctuation and symbols
)
_ASCII_TEXT = "\t\n" + "".join(map(chr, range(0x20, 0x7F)))  # the characters whose token is their code
MIN_LETTERS = 10  # characters: minimum number of non-ASCII letters in an encoding of Latin script [untuned]
_CHARACTER = re.compile("\r\n|.", re.DOTALL)


class CharacterVocabulary:
    r"""256 tokens, each a character of European text in Latin script.

    Tab, newline and printable ASCII keep their codes, so an ASCII text has the same tokens as in ``BYTES``. The other
    codes (the control characters, and 0x7f and above) hold the non-ASCII characters of ``REPERTOIRE``: the letters of
    the languages that use windows-1252, windows-1250, windows-1254, windows-1257 and the related ISO encodings,
    typographic quotes, dashes and common symbols. Very rare characters of these encodings have no token. Every
    character without a token (Greek, Cyrillic, emoji, control characters) is ``other``; experts read this token but
    never predict it. A line end ``\r\n`` is one token, a newline.

    Because tokens lose information, a document keeps the bytes of each visible token (``Encoded.spans``); ``decode``
    returns text for predicted tokens only.
    """

    size: int = 256
    mask: int = LOST
    fingerprint: str = "characters"
    other: int = 0  # token: stands for every character without a token

    def __init__(self, allowed: NDArray[np.bool_] | None = None) -> None:
        """Assign tokens to characters; lost tokens are in ``allowed`` (256,), by default all non-ASCII tokens."""
        free = [code for code in range(self.size) if chr(code) not in _ASCII_TEXT and code != self.other]
        if len(free) != len(REPERTOIRE) or len(set(REPERTOIRE)) != len(REPERTOIRE):
            raise AssertionError(f"{len(free)} free codes for {len(set(REPERTOIRE))} characters")
        self.texts = [chr(code) for code in range(self.size)]
        self.texts[self.other] = "\ufffd"
        for code, character in zip(free, REPERTOIRE, strict=True):
            self.texts[code] = character
        self.codes = {text: code for code, text in enumerate(self.texts) if code != self.other} | {"\r\n": ord("\n")}
        non_ascii = np.zeros(self.size, dtype=np.bool_)
        non_ascii[free] = True
        self.non_ascii: NDArray[np.bool_] = non_ascii  # (256,) True for the tokens of non-ASCII characters
        self.constraint = AllowedTokens(non_ascii if allowed is None else allowed)

    def encode(self, data: bytes) -> Encoded:
        """Return one token for each character of ``data`` (UTF-8)."""
        characters = _CHARACTER.findall(data.decode())
        tokens = np.array([self.codes.get(character, self.other) for character in characters], dtype=np.int64)
        ends = np.cumsum([len(character.encode()) for character in characters], dtype=np.int64)
        return Encoded(tokens, np.stack([np.concatenate([[0], ends[:-1]])[: len(ends)], ends], axis=1))

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """Return the characters of tokens (L,) as UTF-8, with U+FFFD for ``other``."""
        return "".join(self.texts[token] for token in tokens).encode()

    def repertoire(self, encoding: str) -> NDArray[np.bool_]:
        """Return (256,) True for the tokens of non-ASCII characters that a one-byte encoding contains.

        Raises:
            LookupError: the encoding is unknown, not a one-byte encoding, or of another script.
        """
        upper_half = bytes(range(ASCII, self.size))
        try:
            decoded = [
                upper_half[index : index + 1].decode(encoding, errors="ignore") for index in range(len(upper_half))
            ]
        except ValueError as error:
            raise LookupError(f"{encoding!r} is not a one-byte encoding") from error
        contained = self.non_ascii & np.isin(np.array(self.texts), decoded)
        letters = sum(self.texts[code].isalpha() for code in np.flatnonzero(contained))
        if max(map(len, decoded)) > 1 or letters < MIN_LETTERS:
            raise LookupError(f"{encoding!r} is not a one-byte encoding of Latin script")
        return contained


CHARACTERS = CharacterVocabulary()
