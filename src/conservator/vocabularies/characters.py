"""Characters as tokens: the vocabulary of experts that restore text which lost its characters outside ASCII."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conservator.vocabularies.character_set import Repertoire
from conservator.vocabularies.utf8 import ASCII, LOST
from conservator.vocabularies.vocabulary import Encoded

# The characters outside ASCII that have a token of their own, in the order of their tokens.
REPERTOIRE = (
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþœšž"  # windows-1252, small letters
    "ÀÁÂÃÄÅÆÇÈÉÊÍÎÑÒÓÔÕÖØÙÚÜÝÞŒŠŽ"  # and capitals
    "āăąćčďđēėęěğģīįıķľļłńņňőřśşșťţțūůűųźż"  # the other one-byte encodings of Latin script, small letters
    "ĀĂĄĆČĎĐĒĖĘĚĞĪĮİĽŁŐŘŚŞȘȚŪŹŻ"  # and capitals
    "‘’‚“”„«»–—…•·¡¿\u00a0€£°§©®™²³ºª½¼±×µ´"  # noqa: RUF001, punctuation and signs
)
_PLAIN = "\t\n" + "".join(map(chr, range(0x20, 0x7F)))  # the characters that are their own token
LETTERS = 10  # the least number of letters outside ASCII that an encoding of Latin script has
_LINE_END = re.compile("\r\n|.", re.DOTALL)


class CharacterVocabulary:
    r"""256 tokens, each one character of European text in Latin script.

    Tab, newline and the printable characters of ASCII keep their codes, so that a text in ASCII has the same tokens as
    in ``BYTES``. The remaining codes, those of the control characters and from 0x7f on, hold the characters outside
    ASCII of ``REPERTOIRE``: the letters of the languages that are written in windows-1252, windows-1250, windows-1254,
    windows-1257 and their ISO relatives, typographic quotes, dashes and common signs. The few that hardly occur in real
    text have no token. Every character without a token (Greek, Cyrillic, emoji, control characters) is ``other``, which
    is read but never restored. A line end ``\r\n`` is one token, a newline.

    A document therefore keeps the bytes that each visible token stands for (``Encoded.spans``): ``decode`` gives text
    for tokens that were predicted, not the document back.
    """

    size: int = 256
    mask: int = LOST
    fingerprint: str = "characters"
    other: int = 0  # the token of every character without one

    def __init__(self, allowed: NDArray[np.bool_] | None = None) -> None:
        """Number the characters; a lost one is among the ``allowed`` (256,), by default any outside ASCII."""
        free = [code for code in range(self.size) if chr(code) not in _PLAIN and code != self.other]
        if len(free) != len(REPERTOIRE) or len(set(REPERTOIRE)) != len(REPERTOIRE):
            raise AssertionError(f"{len(free)} free codes for {len(set(REPERTOIRE))} characters")
        self.texts = [chr(code) for code in range(self.size)]
        self.texts[self.other] = "\ufffd"
        for code, character in zip(free, REPERTOIRE, strict=True):
            self.texts[code] = character
        self.codes = {text: code for code, text in enumerate(self.texts) if code != self.other} | {"\r\n": ord("\n")}
        outside = np.zeros(self.size, dtype=np.bool_)
        outside[free] = True
        self.outside: NDArray[np.bool_] = outside  # (256,) True for the tokens of characters outside ASCII
        self.constraint = Repertoire(outside if allowed is None else allowed)

    def encode(self, data: bytes) -> Encoded:
        """One token for each character of ``data``, which is UTF-8."""
        pieces = _LINE_END.findall(data.decode())
        tokens = np.array([self.codes.get(piece, self.other) for piece in pieces], dtype=np.int64)
        ends = np.cumsum([len(piece.encode()) for piece in pieces], dtype=np.int64)
        return Encoded(tokens, np.stack([np.concatenate([[0], ends[:-1]])[: len(ends)], ends], axis=1))

    def decode(self, tokens: NDArray[Any]) -> bytes:
        """The characters of tokens (L,), as UTF-8; a replacement character for ``other``."""
        return "".join(self.texts[token] for token in tokens).encode()

    def repertoire(self, encoding: str) -> NDArray[np.bool_]:
        """(256,) True for the tokens of characters outside ASCII that a one-byte encoding has.

        Raises:
            LookupError: no such encoding, not one byte for each character, or one of another script.
        """
        every = bytes(range(ASCII, self.size))
        try:
            single = [every[place : place + 1].decode(encoding, errors="ignore") for place in range(len(every))]
        except ValueError as error:
            raise LookupError(f"{encoding!r} decodes no single bytes") from error
        found = self.outside & np.isin(np.array(self.texts), single)
        if max(map(len, single)) > 1 or sum(self.texts[code].isalpha() for code in np.flatnonzero(found)) < LETTERS:
            raise LookupError(f"{encoding!r} does not have one byte for each letter of Latin script")
        return found


CHARACTERS = CharacterVocabulary()
