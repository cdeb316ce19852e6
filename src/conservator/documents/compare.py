"""Compare a restored document with its original."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.documents.damaged import LOST, MARK, MOJIBAKE_MARK, read_damaged
from conservator.errors import ConservatorError
from conservator.numerics import runs
from conservator.vocabularies.utf8 import ASCII

MAX_ALIGNED_BYTES = 2**14  # bytes: differing bytes that are aligned at once; the time is quadratic [safety limit]
MAX_CHARACTER_BYTES = 4  # bytes: longest character of UTF-8 [definition]


@dataclass(frozen=True)
class Comparison:
    """Counts of lost bytes that were restored, and restored correctly; or of characters, if marks stand for these.

    Attributes:
        lost: the number of lost bytes.
        filled: the number of lost bytes that were filled in.
        right: the number of filled bytes that are correct.
        false_changes: the number of undamaged bytes that the restoration changed.
        character_errors: the edit distance of the restored text to the original, in characters. If more than
            MAX_ALIGNED_BYTES consecutive bytes differ, chunks are aligned separately, and it is an upper bound.
        characters: the number of characters of the original.
        unit: the lost unit: ``byte`` or ``character``.
    """

    lost: int
    filled: int
    right: int
    false_changes: int
    character_errors: int
    characters: int
    unit: str = "byte"

    @property
    def accuracy(self) -> float | None:
        """The fraction of the lost bytes that were restored correctly; None if nothing was lost."""
        return self.right / self.lost if self.lost else None

    @property
    def character_error_rate(self) -> float:
        """Character errors per character of the original."""
        return self.character_errors / max(self.characters, 1)


def compare_documents(original: bytes, restored: bytes, damaged: bytes, *, mark: str = MARK) -> Comparison:
    """Compare a restored document with the original, byte by byte.

    If the damaged document has no marks (bytes were replaced), every byte that differs from the original counts as
    lost. Gaps of unknown length are not supported. If each mark stands for one character of the original, whatever its
    number of bytes, characters are compared instead.
    """
    comparison = _compare_characters(original, restored, damaged, mark)
    if comparison is not None:
        return comparison
    damaged_tokens = read_damaged(damaged, mark=mark).tokens
    restored_tokens = read_damaged(restored, mark=mark).tokens
    clean_tokens = np.frombuffer(original, dtype=np.uint8).astype(np.int16)
    for name, tokens in (("damaged", damaged_tokens), ("restored", restored_tokens)):
        if len(tokens) != len(clean_tokens):
            raise ConservatorError(
                f"the {name} document has {len(tokens)} bytes (each mark counts as one), the original "
                f"{len(clean_tokens)}; both must have the same length"
            )
    wrong = damaged_tokens != clean_tokens
    replaced = np.flatnonzero(wrong & (damaged_tokens != LOST))
    if (damaged_tokens == LOST).any() and len(replaced):
        raise ConservatorError(
            f"the damaged document must equal the original except at marks: byte {replaced[0]} of the original is "
            f"{clean_tokens[replaced[0]]:#04x}, of the damaged document {damaged_tokens[replaced[0]]:#04x}"
        )
    false_changes = int((restored_tokens != damaged_tokens)[~wrong].sum())
    errors = sum(
        Levenshtein.distance(_decode(clean_tokens, *span), _decode(restored_tokens, *span))
        for span in _differing_spans(clean_tokens, restored_tokens)
    )
    filled = int((restored_tokens != damaged_tokens)[wrong].sum())
    right = int((restored_tokens == clean_tokens)[wrong].sum())
    characters = len(_decode(clean_tokens, 0, len(clean_tokens)))
    return Comparison(int(wrong.sum()), filled, right, false_changes, errors, characters)


def _compare_characters(original: bytes, restored: bytes, damaged: bytes, mark: str) -> Comparison | None:
    """Compare characters; return None unless the damaged document is the original with marks for characters."""
    try:
        texts = [data.decode() for data in (original, restored, damaged)]
    except UnicodeDecodeError:
        return None
    if mark == MARK:
        texts[1:] = [text.replace(MOJIBAKE_MARK, MARK) for text in texts[1:]]
    no_character = -1
    clean, result, observed = (
        np.array(
            [
                no_character if character == mark else ord(character)
                for character in re.findall(f"{re.escape(mark)}|.", text, re.DOTALL)
            ]
        )
        for text in texts
    )
    if not len(clean) == len(result) == len(observed) or (observed[observed != clean] != no_character).any():
        return None
    lost = observed == no_character
    if (clean[lost] < ASCII).all():  # each lost character is one byte
        return None
    right, filled = int((result == clean)[lost].sum()), int((result != no_character)[lost].sum())
    false_changes, errors = int((result != observed)[~lost].sum()), int((result != clean).sum())
    return Comparison(int(lost.sum()), filled, right, false_changes, errors, len(clean), "character")


def _differing_spans(clean: np.ndarray, restored: np.ndarray) -> list[tuple[int, int]]:
    """Return the spans in which both differ, extended to complete characters of both; long spans in chunks."""
    continues = (((clean & 0xC0) == 0x80) | ((restored & 0xC0) == 0x80) & (restored != LOST)).tolist()
    spans: list[tuple[int, int]] = []
    for start, stop in runs(clean != restored):
        while start > 0 and continues[start]:
            start -= 1
        while stop < len(clean) and continues[stop]:
            stop += 1
        if spans and start < spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, stop))
    return [chunk for span in spans for chunk in _chunks(*span, continues)]


def _chunks(start: int, stop: int, continues: list[bool]) -> Iterator[tuple[int, int]]:
    """Yield chunks of about MAX_ALIGNED_BYTES bytes, each of complete characters if these are UTF-8."""
    while stop - start > MAX_ALIGNED_BYTES:
        end = start + MAX_ALIGNED_BYTES
        window = continues[end : end + MAX_CHARACTER_BYTES]
        end += next((offset for offset, inside in enumerate(window) if not inside), 0)
        yield start, end
        start = end
    yield start, stop


def _decode(tokens: np.ndarray, start: int, stop: int) -> str:
    """Return the tokens from ``start`` to ``stop`` as text, with U+FFFD for lost and invalid bytes."""
    chunk = tokens[start:stop]
    if not (chunk == LOST).any():
        return chunk.astype(np.uint8).tobytes().decode(errors="replace")
    parts = (MARK.encode() if token == LOST else bytes([token]) for token in chunk.tolist())
    return b"".join(parts).decode(errors="replace")
