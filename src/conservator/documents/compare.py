"""Compare a restored document with its original."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from conservator.documents.damaged import LOST, MARK, TWICE, read_damaged
from conservator.errors import ConservatorError
from conservator.numerics import runs
from conservator.vocabularies.utf8 import ASCII

LONGEST = 2**14  # bytes in a row that differ and are aligned at once; the time grows with the square
WIDEST = 4  # bytes of a character


@dataclass(frozen=True)
class Comparison:
    """How many lost bytes were restored, and how many of them correctly; or characters, where marks stand for these.

    Attributes:
        lost: the number of lost bytes.
        filled: how many of them were filled in.
        right: how many of those are right.
        false_changes: undamaged bytes that the restoration changed.
        character_errors: the edit distance of the restored text to the original, in characters; where more than LONGEST
            bytes in a row differ, that of one part after the other, which may be a few more.
        characters: the number of characters of the original.
        unit: what a mark stands for: ``byte`` or ``character``.
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
        """The share of the lost bytes that are right again; None if nothing was lost."""
        return self.right / self.lost if self.lost else None

    @property
    def character_error_rate(self) -> float:
        """Character errors per character of the original."""
        return self.character_errors / max(self.characters, 1)


def compare_documents(original: bytes, restored: bytes, damaged: bytes, *, mark: str = MARK) -> Comparison:
    """Compare a restored document with the original, byte by byte.

    If the damaged document has no marks (bytes were replaced), every byte that differs from the original counts as
    lost. Gaps of unknown length are not covered. If the original has a character where the damaged document has a mark,
    whatever its bytes, characters are compared.
    """
    found = _compare_characters(original, restored, damaged, mark)
    if found is not None:
        return found
    was = read_damaged(damaged, mark=mark).tokens
    now = read_damaged(restored, mark=mark).tokens
    truth = np.frombuffer(original, dtype=np.uint8).astype(np.int16)
    for name, tokens in (("damaged", was), ("restored", now)):
        if len(tokens) != len(truth):
            raise ConservatorError(
                f"the {name} document has {len(tokens)} bytes, a mark counted as one, the original {len(truth)}; "
                "they must be equally long"
            )
    wrong = was != truth
    strange = np.flatnonzero(wrong & (was != LOST))
    if (was == LOST).any() and len(strange):
        raise ConservatorError(
            f"the damaged document is not the original with bytes lost: byte {strange[0]} of the original is "
            f"{truth[strange[0]]:#04x}, and {was[strange[0]]:#04x} there"
        )
    false_changes = int((now != was)[~wrong].sum())
    errors = sum(Levenshtein.distance(_text(truth, *span), _text(now, *span)) for span in _character_runs(truth, now))
    filled = int((now != was)[wrong].sum())
    right = int((now == truth)[wrong].sum())
    return Comparison(int(wrong.sum()), filled, right, false_changes, errors, len(_text(truth, 0, len(truth))))


def _compare_characters(original: bytes, restored: bytes, damaged: bytes, mark: str) -> Comparison | None:
    """Compare characters; None if marks are bytes: the damaged document is not the original with characters lost."""
    try:
        texts = [data.decode() for data in (original, restored, damaged)]
    except UnicodeDecodeError:
        return None
    if mark == MARK:
        texts[1:] = [text.replace(TWICE, MARK) for text in texts[1:]]
    none = -1  # no character
    truth, now, was = (
        np.array([none if one == mark else ord(one) for one in re.findall(f"{re.escape(mark)}|.", text, re.DOTALL)])
        for text in texts
    )
    if not len(truth) == len(now) == len(was) or (was[was != truth] != none).any():
        return None
    lost = was == none
    if (truth[lost] < ASCII).all():  # a byte is a character, too
        return None
    right, filled = int((now == truth)[lost].sum()), int((now != none)[lost].sum())
    false_changes, errors = int((now != was)[~lost].sum()), int((now != truth).sum())
    return Comparison(int(lost.sum()), filled, right, false_changes, errors, len(truth), "character")


def _character_runs(truth: np.ndarray, now: np.ndarray) -> list[tuple[int, int]]:
    """The ranges in which ``truth`` and ``now`` differ, widened to whole characters of both; long ones in parts."""
    inside = (((truth & 0xC0) == 0x80) | ((now & 0xC0) == 0x80) & (now != LOST)).tolist()
    spans: list[tuple[int, int]] = []
    for start, stop in runs(truth != now):
        while start > 0 and inside[start]:
            start -= 1
        while stop < len(truth) and inside[stop]:
            stop += 1
        if spans and start < spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, stop))
    return [part for span in spans for part in _parts(*span, inside)]


def _parts(start: int, stop: int, inside: list[bool]) -> Iterator[tuple[int, int]]:
    """A range in parts of about LONGEST bytes, each of whole characters if these are UTF-8."""
    while stop - start > LONGEST:
        end = start + LONGEST
        end += next((more for more, one in enumerate(inside[end : end + WIDEST]) if not one), 0)
        yield start, end
        start = end
    yield start, stop


def _text(tokens: np.ndarray, start: int, stop: int) -> str:
    """The tokens from ``start`` to ``stop`` as text, with U+FFFD for what is lost or not UTF-8."""
    part = tokens[start:stop]
    if not (part == LOST).any():
        return part.astype(np.uint8).tobytes().decode(errors="replace")
    signs = (MARK.encode() if token == LOST else bytes([token]) for token in part.tolist())
    return b"".join(signs).decode(errors="replace")
