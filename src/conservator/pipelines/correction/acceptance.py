"""Which changes of a document are made.

A change is made if the models cover the text there, if it gains enough, and, without reference texts of the same kind,
if its calibrated probability is at least LEAST. A change of the layout is not made. These are made only if a reference
text contains the result:

- changes of addresses and identifiers, and of letters into digits or digits into letters;
- without reference texts of the same kind: any change of a token that has digits or is a code, and any change of a
  spelling that the document repeats.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from conservator.decoders.edits import Change
from conservator.pipelines.correction.confidence import LEAST, calibrate, kind_of
from conservator.pipelines.correction.coverage import Coverage
from conservator.pipelines.correction.protection import EDGES, has_digit, is_code, is_name, token_span

REPEATED = 3  # times that a document has a spelling which then counts as intended


class Acceptance:
    """The conditions that the changes of one document must meet."""

    def __init__(
        self,
        text: str,
        coverage: Coverage,
        reference_index: float,
        attested: frozenset[str],
        mark: str | None,
        min_log_odds: float,
        min_confidence: float,
    ) -> None:
        """Take the document and the conditions.

        Args:
            text: the document as it was seen.
            coverage: where the models know it.
            reference_index: the weight of reference texts among the models; 0 if there are none of the same kind.
            attested: the tokens of reference texts.
            mark: what stands for one lost character; None if nothing does.
            min_log_odds: by how many nats the evidence must favour a change.
            min_confidence: the least probability of a change.
        """
        self.text, self.coverage, self.reference_index, self.attested, self.mark = (
            text,
            coverage,
            reference_index,
            attested,
            mark,
        )
        self.min_log_odds, self.min_confidence = min_log_odds, min_confidence
        self.counts = Counter(token.strip(EDGES) for token in text.split())

    def keep(self, changes: Iterable[Change]) -> list[Change]:
        """The changes that are made, with calibrated probabilities."""
        candidates = []
        for change in changes:
            around = slice(max(0, change.start - 1), change.stop + 1)
            if not self.coverage.covered[around].all():
                continue
            if not self.fills_mark(change):
                surprisal = float(self.coverage.surprisal[around].mean())
                probability = calibrate(change.probability, surprisal, kind_of(change), self.reference_index)
                change = replace(change, probability=probability)
                if is_layout(self.text, change) or (probability < LEAST and not self.reference_index):
                    continue
            if change.log_odds >= self.min_log_odds and change.probability >= self.min_confidence:
                candidates.append(change)
        return [one for one in candidates if self.fills_mark(one) or not self.is_protected(one, candidates)]

    def fills_mark(self, change: Change) -> bool:
        """Whether a change fills a mark, which was not in the text."""
        return change.log_odds == np.inf and change.seen == self.mark

    def is_protected(self, change: Change, together: Sequence[Change]) -> bool:
        """Whether a change is one of a protected token or a repeated spelling, and no reference text has the result.

        The result is that of all changes of the token which are made ``together``.
        """
        start, stop = token_span(self.text, change.start, change.stop)
        token, result, done = self.text[start:stop], "", start
        for one in together:
            if start <= one.start and one.stop <= stop:
                result += self.text[done : one.start] + one.text
                done = one.stop
        result += self.text[done:stop]
        protected = is_name(token) or is_name(result) or has_digit(change.seen) or has_digit(change.text)
        if not self.reference_index:
            repeated = self.counts[token.strip(EDGES)] >= REPEATED and not self.counts[result.strip(EDGES)]
            protected |= repeated or is_code(token) or is_code(result)
        return protected and not all(part.strip(EDGES) in self.attested for part in result.split())


def is_layout(text: str, change: Change) -> bool:
    """Whether a change is of blanks alone, beside other blanks or at the edge of a line."""
    beside = (text[change.start - 1 : change.start], text[change.stop : change.stop + 1])
    return not (change.seen + change.text).strip() and not all(one.strip() for one in beside)
