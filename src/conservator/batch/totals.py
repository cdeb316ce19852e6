"""Totals of a batch."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from conservator.batch.engine import COPIED, DocumentResult


@dataclass
class Totals:
    """Totals over the documents of a batch.

    Attributes:
        outcomes: outcome -> number of documents.
        excluded: number of files of folders that are not text.
        bytes: total size of the documents.
        lost: number of lost bytes or characters.
        restored: number of restored ones.
        confident: number of restored ones with a confidence of at least 0.9.
        unfilled: number of lost ones that were left unfilled.
        expected_correct: expected number of restored ones that are correct.
        seconds: total time of the workers.
        reasons: reason for copying -> number of documents.
        converted: (input encoding, output encoding) -> number of documents, where they differ.
        notices: kind of notice -> number of documents.
        messages: kind of notice -> its message for one of these documents.
        weight_sums: expert -> sum of its weights over all lost bytes.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    excluded: int = 0
    bytes: int = 0
    lost: int = 0
    restored: int = 0
    confident: int = 0
    unfilled: int = 0
    expected_correct: float = 0.0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    converted: Counter[tuple[str, str]] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    weight_sums: dict[str, float] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(self.outcomes.values())

    @property
    def copied(self) -> int:
        """Number of documents that could not be restored."""
        return self.outcomes[COPIED]

    @property
    def expected_accuracy(self) -> float | None:
        """Expected share of the restored bytes or characters that are correct; None if nothing was restored."""
        return self.expected_correct / self.restored if self.restored else None

    def mean_weights(self) -> list[tuple[str, float]]:
        """The mean weight of each expert over all lost bytes, largest first."""
        largest_first = sorted(self.weight_sums.items(), key=lambda item: -item[1])
        return [(name, weight / self.lost) for name, weight in largest_first] if self.lost else []


def sum_results(rows: Iterable[dict[str, Any]]) -> Totals:
    """Sum up the rows of ``Ledger.rows``."""
    totals = Totals()
    for row in rows:
        result: DocumentResult = row["result"]
        if result.binary:
            totals.excluded += 1
            continue
        totals.outcomes[result.outcome] += 1
        totals.bytes += row["bytes"]
        totals.seconds += result.seconds
        if result.outcome == COPIED:
            totals.reasons[result.reason] += 1
        if result.encoding != result.written:
            totals.converted[result.encoding, result.written] += 1
        totals.notices.update(result.notices.keys())
        totals.messages = result.notices | totals.messages
        totals.lost += result.lost
        totals.restored += result.restored
        totals.confident += result.confident
        totals.unfilled += result.unfilled
        totals.expected_correct += result.restored * (result.expected_accuracy or 0.0)
        for name, weight in result.weights.items():
            totals.weight_sums[name] = totals.weight_sums.get(name, 0.0) + weight * result.lost
    return totals
