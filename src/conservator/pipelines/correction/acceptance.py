"""Selection of the changes that are made.

A change is made if the models cover the text there, if its log-odds are large enough, and, without reference texts of
the same kind, if its calibrated probability is at least ``CALIBRATION.min_probability``. Changes of the layout are not
made. The following changes are made only if a reference text contains the result:

- changes of addresses and identifiers, and of letters into digits or digits into letters;
- without reference texts of the same kind: any change of a token that has digits or is a code, and any change of a
  form that the document repeats.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from conservator.decoders.edits import Change
from conservator.documents import splice
from conservator.pipelines.correction.confidence import CALIBRATION, calibrate, kind_of
from conservator.pipelines.correction.coverage import Coverage
from conservator.pipelines.correction.protection import has_digit, is_code, is_name, token_span
from conservator.pipelines.references import EDGES

MIN_REPEATS = 3  # occurrences: a form that a document has as often counts as intended [untuned]


class Acceptance:
    """The conditions that the changes of one document must meet."""

    def __init__(
        self,
        text: str,
        coverage: Coverage,
        reference_weight: float,
        reference_tokens: frozenset[str],
        mark: str | None,
        min_log_odds: float,
        min_confidence: float,
    ) -> None:
        """Store the document and the conditions.

        Args:
            text: The observed document.
            coverage: The positions that the models cover.
            reference_weight: Weight of reference texts in the mixture; 0 if there are none of the same kind.
            reference_tokens: Tokens of the reference texts.
            mark: Text that stands for one lost character; None if there are no marks.
            min_log_odds: Minimum log-odds of a change, in nats.
            min_confidence: Minimum probability of a change.
        """
        self.text, self.coverage, self.mark = text, coverage, mark
        self.reference_weight, self.reference_tokens = reference_weight, reference_tokens
        self.min_log_odds, self.min_confidence = min_log_odds, min_confidence
        self.counts = Counter(token.strip(EDGES) for token in text.split())

    def select(self, changes: Iterable[Change]) -> list[Change]:
        """Return the changes that are made, with calibrated probabilities."""
        candidates = []
        for change in changes:
            around = slice(max(0, change.start - 1), change.stop + 1)
            if not self.coverage.covered[around].all():
                continue
            if not self.fills_mark(change):
                surprisal = float(self.coverage.surprisal[around].mean())
                probability = calibrate(change.probability, surprisal, kind_of(change), self.reference_weight)
                change = replace(change, probability=probability)
                is_improbable = probability < CALIBRATION.min_probability and not self.reference_weight
                if is_layout(self.text, change) or is_improbable:
                    continue
            if change.log_odds >= self.min_log_odds and change.probability >= self.min_confidence:
                candidates.append(change)
        return [change for change in candidates if self.fills_mark(change) or not self.is_protected(change, candidates)]

    def fills_mark(self, change: Change) -> bool:
        """Return whether a change fills a mark."""
        return change.log_odds == np.inf and change.seen == self.mark

    def is_protected(self, change: Change, changes: Sequence[Change]) -> bool:
        """Return whether a change affects a protected token or a repeated form, and no reference contains the result.

        Args:
            change: The change.
            changes: All changes that would be made; those of the same token determine the result.
        """
        start, stop = token_span(self.text, change.start, change.stop)
        token = self.text[start:stop]
        inside = (other for other in changes if start <= other.start and other.stop <= stop)
        result = splice(token, ((other.start - start, other.stop - start, other.text) for other in inside))
        protected = is_name(token) or is_name(result) or has_digit(change.seen) or has_digit(change.text)
        if not self.reference_weight:
            repeated = self.counts[token.strip(EDGES)] >= MIN_REPEATS and not self.counts[result.strip(EDGES)]
            protected |= repeated or is_code(token) or is_code(result)
        return protected and not all(part.strip(EDGES) in self.reference_tokens for part in result.split())


def is_layout(text: str, change: Change) -> bool:
    """Return whether a change affects only blanks that are next to other blanks or at the edge of a line."""
    neighbours = (text[change.start - 1 : change.start], text[change.stop : change.stop + 1])
    return not (change.seen + change.text).strip() and not all(neighbour.strip() for neighbour in neighbours)
