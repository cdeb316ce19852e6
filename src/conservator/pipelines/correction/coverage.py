"""How well the character models know a text, position by position.

The surprisal of a character is -log p(character | characters before) under the mixture of models, clipped at CLIP, so
that it tells which characters are predicted well, and OCR errors count little. Its mean is 0.5 to 0.75 nats in English
text with OCR errors, and 0.8 to 0.95 in other languages. The covered parts of a text are those of the most probable
segmentation

    max over c in {0, 1}^n of  sum_t c_t RATIO (limit - surprisal_t) - START c_1 - SWITCH |{t: c_t != c_t-1}|

in which RATIO (limit - surprisal) is the log-likelihood ratio of two normal distributions with the means of covered and
uncovered text. Of windows of 400 characters, 94 to 100 % are below LIMIT in most sets of English OCR text, 1 % in ten
other languages. With reference texts of the same kind the limit is higher, and text with very many OCR errors is
corrected, too. Reference texts are of the same kind if they lower the mean clipped surprisal by at least BENEFIT: by
0.017 to 0.06 for newspapers of the same time, and by at most 0.005 for documents in other languages.
"""

import re

import numpy as np
from numpy.typing import NDArray

from conservator.experts.char_ngram import CharNgramMixture
from conservator.numerics import compiled

CLIP = 1.0  # nats
REACH = 200  # characters on either side, for the local surprisal
LIMIT = 0.8  # nats, halfway between the means of covered and uncovered text
REFERENCE_LIMIT = 0.95  # the same with reference texts of this kind
RATIO = 1.8  # the difference of these means divided by the variance of the clipped surprisal, per nat
START = 4.0  # nats of evidence that a covered text needs, so that very short texts are left unchanged
BENEFIT = 0.01  # nats of clipped surprisal
SWITCH = 25.0  # nats of evidence for a change between covered and uncovered text
AFTER_MARK = 2  # characters after a mark that are not counted: a mark is no context for them

Floats = NDArray[np.float64]


class Coverage:
    """The local surprisal of a text and the positions that the models cover.

    Attributes:
        surprisal: (n,) the local surprisal at each character, in nats.
        covered: (n,) True where the models know the text well enough to correct it.
    """

    def __init__(
        self, text: str, mixture: CharNgramMixture, mark: str | None = None, *, reference_index: bool = False
    ) -> None:
        """Measure a text; its marks and the characters next to them are not counted.

        Args:
            text: as it was seen.
            mixture: the character models.
            mark: what stands for one lost character; None if nothing does.
            reference_index: whether there are reference texts of the same kind.
        """
        limit = REFERENCE_LIMIT if reference_index else LIMIT
        counted = np.ones(len(text))
        for found in re.finditer(re.escape(mark), text) if mark else ():
            counted[found.start() : found.end() + AFTER_MARK] = 0.0
        clipped = np.minimum(-mixture.log_probs(text), CLIP) * counted
        sums, counts = (_window_sums(values) for values in (clipped, counted))
        self.surprisal: Floats = sums / np.maximum(counts, 1.0)
        self.covered: NDArray[np.bool_] = segment(RATIO * (limit * counted - clipped), START, SWITCH)

    def uncovered_share(self, text: str) -> float:
        """The share of the characters of the text, without blanks, that no model covers."""
        inked = np.array([not character.isspace() for character in text], dtype=bool)
        return float((inked & ~self.covered).sum() / max(1, inked.sum()))


def mean_surprisal(text: str, mixture: CharNgramMixture) -> float:
    """The mean clipped surprisal of a text."""
    return float(np.minimum(-mixture.log_probs(text), CLIP).mean())


def _window_sums(values: Floats) -> Floats:
    """(n,) the sum of the values within REACH of each position."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    sums: Floats = total[np.minimum(places + REACH + 1, len(values))] - total[np.maximum(places - REACH, 0)]
    return sums


@compiled
def segment(ratios: Floats, start: float, switch: float) -> NDArray[np.bool_]:
    """(n,) True in the covered parts of the most probable segmentation, given log-likelihood ratios (n,)."""
    size = len(ratios)
    came_from = np.zeros((size, 2), dtype=np.bool_)  # the state before, for each state
    scores = np.array([0.0, -start])
    for place in range(size):
        stay, switched = scores.copy(), scores - switch
        for state in range(2):
            before = state if place == 0 or stay[state] >= switched[1 - state] else 1 - state
            came_from[place, state] = before == 1
            scores[state] = (stay[state] if before == state else switched[before]) + state * ratios[place]
    covered = np.zeros(size, dtype=np.bool_)
    state = int(scores[1] > scores[0])
    for place in range(size - 1, -1, -1):
        covered[place] = state == 1
        state = int(came_from[place, state])
    return covered
