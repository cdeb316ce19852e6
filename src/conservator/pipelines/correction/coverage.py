"""Coverage: how well the character models predict a text, position by position.

The surprisal of a character is -log p(character | characters before) under the mixture of models, clipped at
``max_surprisal``. It shows which characters are predicted well, and OCR errors have little influence. Its mean is 0.5
to 0.75 nats in English text with OCR errors, and 0.8 to 0.95 in other languages. The covered parts of a text are those
of the most probable segmentation

    max over c in {0, 1}^n of  sum_t c_t ratio (limit - surprisal_t) - start_cost c_1 - switch_cost |{t: c_t != c_t-1}|

in which ratio (limit - surprisal) is the log-likelihood ratio of two normal distributions with the means of covered and
uncovered text. Of windows of 400 characters, 94 to 100 % are below ``limit`` in most sets of English OCR text, 1 % in
ten other languages. With reference texts of the same kind the limit is higher, and text with very many OCR errors is
corrected, too. Reference texts are of the same kind if they lower the mean clipped surprisal by at least
``min_reference_benefit``: by 0.017 to 0.06 for newspapers of the same time, and by at most 0.005 for documents in other
languages.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conservator.arrays import Floats
from conservator.experts.char_ngram import CharNgramMixture
from conservator.numerics import compiled


@dataclass(frozen=True)
class CoverageConfig:
    """Constants of the coverage."""

    max_surprisal: float = 1.0  # nats: clipping, so that errors count little [LOG: text-without-language-coverage]
    radius: int = 200  # characters: on either side, for the local surprisal [LOG: text-without-language-coverage]
    # nats: halfway between the means of covered and uncovered text [LOG: text-without-language-coverage]
    limit: float = 0.8
    reference_limit: float = 0.95  # nats: the same with references [LOG: text-without-language-coverage]
    # per nat: difference of these means divided by the variance [LOG: text-without-language-coverage]
    ratio: float = 1.8
    # nats: evidence that a covered text needs, so that very short texts are unchanged [untuned]
    start_cost: float = 4.0
    switch_cost: float = 25.0  # nats: cost of a boundary of covered text [LOG: text-without-language-coverage]
    min_reference_benefit: float = 0.01  # nats: of clipped surprisal [LOG: text-without-language-coverage]
    ignored_after_mark: int = 2  # characters: not counted after a mark, which is no context for them [untuned]


COVERAGE = CoverageConfig()


class Coverage:
    """The local surprisal of a text and the positions that the models cover.

    Attributes:
        surprisal: (n,) local surprisal at each character, in nats.
        covered: (n,) True where the models predict the text well enough to correct it.
    """

    def __init__(
        self,
        text: str,
        mixture: CharNgramMixture,
        ignored: Iterable[tuple[int, int]] = (),
        *,
        has_references: bool = False,
    ) -> None:
        """Measure a text.

        Args:
            text: The observed text.
            mixture: The character models.
            ignored: Ranges, such as marks, that are not counted, nor the characters after them.
            has_references: Whether there are reference texts of the same kind.
        """
        limit = COVERAGE.reference_limit if has_references else COVERAGE.limit
        counted = np.ones(len(text))
        for start, stop in ignored:
            counted[start : stop + COVERAGE.ignored_after_mark] = 0.0
        clipped = np.minimum(-mixture.log_probs(text), COVERAGE.max_surprisal) * counted
        sums, counts = (_window_sums(values) for values in (clipped, counted))
        self.surprisal: Floats = sums / np.maximum(counts, 1.0)
        ratios = COVERAGE.ratio * (limit * counted - clipped)
        self.covered: NDArray[np.bool_] = segment(ratios, COVERAGE.start_cost, COVERAGE.switch_cost)

    def uncovered_share(self, text: str) -> float:
        """Return the share of the characters of the text, without blanks, that no model covers."""
        is_printed = np.array([not character.isspace() for character in text], dtype=bool)
        return float((is_printed & ~self.covered).sum() / max(1, is_printed.sum()))


def mean_surprisal(text: str, mixture: CharNgramMixture) -> float:
    """Return the mean clipped surprisal of a text."""
    return float(np.minimum(-mixture.log_probs(text), COVERAGE.max_surprisal).mean())


def _window_sums(values: Floats) -> Floats:
    """(n,) the sum of the values within ``COVERAGE.radius`` of each position."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    positions, radius = np.arange(len(values)), COVERAGE.radius
    sums: Floats = total[np.minimum(positions + radius + 1, len(values))] - total[np.maximum(positions - radius, 0)]
    return sums


@compiled
def segment(ratios: Floats, start_cost: float, switch_cost: float) -> NDArray[np.bool_]:
    """(n,) True in the covered parts of the most probable segmentation, given log-likelihood ratios (n,)."""
    size = len(ratios)
    came_from = np.zeros((size, 2), dtype=np.bool_)  # the previous state, for each state
    scores = np.array([0.0, -start_cost])
    for position in range(size):
        stay, switched = scores.copy(), scores - switch_cost
        for state in range(2):
            before = state if position == 0 or stay[state] >= switched[1 - state] else 1 - state
            came_from[position, state] = before == 1
            scores[state] = (stay[state] if before == state else switched[before]) + state * ratios[position]
    covered = np.zeros(size, dtype=np.bool_)
    state = int(scores[1] > scores[0])
    for position in range(size - 1, -1, -1):
        covered[position] = state == 1
        state = int(came_from[position, state])
    return covered
