"""OCR confidences as likelihoods: the evidence of an OCR engine about each character that it recognised.

The OCR confidence i is one more observation of a character. It is conditionally independent of all else, given whether
the character is correct and whether a neighbour was deleted.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conservator.arrays import Floats

OcrAlternative = tuple[str, float]  # an alternative character, and its probability if the observed one is wrong
MIN_PROB = 1e-12  # probability: lower bound before a logarithm [numerical]


@dataclass(frozen=True)
class OcrConfidence:
    """Log-likelihood ratios of the OCR confidences of n characters.

    Attributes:
        correct: (n,) log p(i | the character is correct) - log p(i); 0 without a confidence.
        wrong: (n,) log p(i | the character is wrong) - log p(i).
        deletion: (n + 1,) log p(i | text is missing before the character) - log p(i), with i the confidences on both
            sides; the last one is for the end.
        alternatives: for each character, the OCR alternatives and the probability of each, if the character is wrong.
    """

    correct: Floats
    wrong: Floats
    deletion: Floats
    alternatives: tuple[tuple[OcrAlternative, ...], ...]

    @classmethod
    def uninformative(cls, size: int) -> "OcrConfidence":
        """Return the confidences of an engine that reports none."""
        return cls(np.zeros(size), np.zeros(size), np.zeros(size + 1), ((),) * size)

    @cached_property
    def log_unlisted(self) -> Floats:
        """(n,) log p(the clean character is none of the alternatives | the character is wrong)."""
        listed = [sum(probability for _, probability in alternatives) for alternatives in self.alternatives]
        return np.log([max(MIN_PROB, 1 - total) for total in listed])

    def __len__(self) -> int:
        """Return the number of characters."""
        return len(self.correct)

    def part(self, start: int, stop: int) -> "OcrConfidence":
        """Return the confidences of the characters from ``start`` to ``stop``."""
        span = slice(start, stop)
        return OcrConfidence(
            self.correct[span], self.wrong[span], self.deletion[start : stop + 1], self.alternatives[span]
        )
