"""What a reader of pages said of each character that it read: how sure it was, and what else it may be.

What is said, i, is one more observation of a character. All that it depends on is whether the character was read right,
and whether something beside it was left out.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Other = tuple[str, float]  # another reading, and how probable it is if the character is wrong
LEAST = 1e-12


@dataclass(frozen=True)
class OcrConfidence:
    """What a reader said of n characters.

    Attributes:
        right: (n,) log p(i | the character is right) - log p(i); 0 where nothing was said.
        wrong: (n,) log p(i | it is wrong) - log p(i).
        missing: (n + 1,) log p(i | something is missing before the character) - log p(i), by what was said of both
            sides; the last one is for the end.
        others: for each character, other readings and the probability of each, if it is wrong.
    """

    right: Floats
    wrong: Floats
    missing: Floats
    others: tuple[tuple[Other, ...], ...]

    @classmethod
    def silent(cls, size: int) -> "OcrConfidence":
        """Of a reader that said nothing."""
        return cls(np.zeros(size), np.zeros(size), np.zeros(size + 1), ((),) * size)

    @cached_property
    def rest(self) -> Floats:
        """(n,) log p(it is none of these other readings | it is wrong)."""
        return np.log([max(LEAST, 1 - sum(share for _, share in one)) for one in self.others])

    def __len__(self) -> int:
        """The number of characters."""
        return len(self.right)

    def part(self, start: int, stop: int) -> "OcrConfidence":
        """What was said of some of the characters."""
        here = slice(start, stop)
        return OcrConfidence(self.right[here], self.wrong[here], self.missing[start : stop + 1], self.others[here])
