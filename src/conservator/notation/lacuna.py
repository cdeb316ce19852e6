"""Lacunae, and the private code points that stand for them in a reading text."""

from dataclasses import dataclass

import numpy as np

from conservator.errors import ConservatorError

FIRST_MARKER = 0xF0000  # code point: start of the range of the markers of lacunae, for private use [definition]
MAX_CHARACTERS = 999  # characters: longest lacuna that a marker describes [definition]
UNKNOWN_LENGTH = 2 * (MAX_CHARACTERS + 1)  # number of the marker of unknown length [definition]
# ratio: standard deviation of the length that an editor estimated, relative to the estimate [untuned]
ESTIMATE_ERROR = 0.2
MIN_ESTIMATE_ERROR = 0.75  # characters: smallest standard deviation of an estimate [untuned]
# nats: lengths that are less probable than the estimate by more than this are excluded [numerical]
MAX_NATS = 4.0
# characters: mean of the geometric prior of an unknown length, that of gaps in alignment/gap_lengths.py in bytes
# [LOG: gap-lengths]
MEAN_LENGTH = 10.0


@dataclass(frozen=True)
class Lacuna:
    """Lost text.

    Attributes:
        characters: Number of characters; None if it is unknown.
        is_exact: Whether the number is exact; otherwise it is an estimate.
    """

    characters: int | None = None
    is_exact: bool = False

    @property
    def marker(self) -> str:
        """The code point that stands for the lacuna in a reading text."""
        if self.characters is None:
            return chr(FIRST_MARKER + UNKNOWN_LENGTH)
        number = min(self.characters, MAX_CHARACTERS)
        return chr(FIRST_MARKER + number + (0 if self.is_exact else MAX_CHARACTERS + 1))

    def log_lengths(self, max_characters: int) -> dict[int, float]:
        """Return number of characters -> its log-probability; empty if the lacuna is longer than ``max_characters``.

        An estimate n has a discretised normal distribution around n, an unknown length a geometric one.
        """
        if self.characters is not None and self.is_exact:
            return {self.characters: 0.0} if 1 <= self.characters <= max_characters else {}
        lengths = np.arange(1, max_characters + 1)
        if self.characters is None:
            scores = -lengths / MEAN_LENGTH
        else:
            error = max(MIN_ESTIMATE_ERROR, ESTIMATE_ERROR * self.characters)
            scores = -((lengths - self.characters) ** 2) / (2 * error**2)
            selected = scores >= -MAX_NATS
            lengths, scores = lengths[selected], scores[selected]
        if not len(lengths):
            return {}
        scores = scores - np.logaddexp.reduce(scores)
        return dict(zip(lengths.tolist(), scores.tolist(), strict=True))


def lacuna_of(character: str) -> Lacuna | None:
    """Return the lacuna that a character of a reading text stands for; None for text."""
    number = ord(character) - FIRST_MARKER
    if not 0 <= number <= UNKNOWN_LENGTH:
        return None
    if number == UNKNOWN_LENGTH:
        return Lacuna()
    is_estimate, characters = divmod(number, MAX_CHARACTERS + 1)
    return Lacuna(characters, is_exact=not is_estimate)


def check_markers(text: str) -> None:
    """Raise a ConservatorError if a document has one of the code points of lacunae."""
    marker = next((character for character in text if lacuna_of(character) is not None), None)
    if marker is not None:
        raise ConservatorError(
            f"the document has the private character U+{ord(marker):X}, which stands for a lacuna here; remove it, or "
            "set notation='plain'"
        )
