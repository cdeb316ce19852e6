"""Compare a restored document with its original."""

from dataclasses import dataclass

import numpy as np

from conservator.documents.damaged import LOST, MARK, read_damaged
from conservator.errors import ConservatorError
from conservator.numerics import compiled, runs


@dataclass(frozen=True)
class Comparison:
    """How many lost bytes were restored, and how many of them correctly.

    Attributes:
        lost: the number of lost bytes.
        filled: how many of them were filled in.
        right: how many of those are right.
        false_changes: undamaged bytes that the restoration changed.
        character_errors: the edit distance of the restored text to the original, in characters.
        characters: the number of characters of the original.
    """

    lost: int
    filled: int
    right: int
    false_changes: int
    character_errors: int
    characters: int

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
    lost. Gaps of unknown length are not covered.
    """
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
    errors = sum(_edit_distance(_text(truth, *span), _text(now, *span)) for span in _character_runs(truth, now))
    filled = int((now != was)[wrong].sum())
    right = int((now == truth)[wrong].sum())
    return Comparison(int(wrong.sum()), filled, right, false_changes, errors, len(_text(truth, 0, len(truth))))


def _character_runs(truth: np.ndarray, now: np.ndarray) -> list[tuple[int, int]]:
    """The ranges in which ``truth`` and ``now`` differ, widened to whole characters of both."""
    inside = ((truth & 0xC0) == 0x80) | ((now & 0xC0) == 0x80) & (now != LOST)
    spans: list[tuple[int, int]] = []
    for start, stop in runs(truth != now):
        while start > 0 and inside[start]:
            start -= 1
        while stop < len(truth) and inside[stop]:
            stop += 1
        if spans and start < spans[-1][1]:
            start = spans.pop()[0]
        spans.append((start, stop))
    return spans


def _text(tokens: np.ndarray, start: int, stop: int) -> str:
    """The tokens from ``start`` to ``stop`` as text, with U+FFFD for what is lost or not UTF-8."""
    return b"".join(MARK.encode() if token == LOST else bytes([token]) for token in tokens[start:stop].tolist()).decode(
        errors="replace"
    )


def _edit_distance(one: str, other: str) -> int:
    """The least number of characters to insert, delete or change."""
    letters = (np.array([ord(letter) for letter in text], dtype=np.int64) for text in (one, other))
    return int(edit_kernel(*letters))


@compiled
def edit_kernel(one: np.ndarray, other: np.ndarray) -> int:
    """The edit distance of two arrays of code points."""
    row = np.arange(len(other) + 1)
    for line in range(len(one)):
        diagonal, row[0] = row[0], line + 1
        for column in range(len(other)):
            cost = min(row[column + 1] + 1, row[column] + 1, diagonal + (one[line] != other[column]))
            diagonal, row[column + 1] = row[column + 1], cost
    return int(row[-1])
