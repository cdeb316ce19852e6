"""The numbers of a batch."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from conservator.batch.engine import COPIED, DocumentResult


@dataclass
class Totals:
    """The numbers of a batch.

    Attributes:
        outcomes: how many documents there are of each outcome.
        left_out: how many files that were found are not text.
        bytes: of all documents.
        reasons: why documents were copied, and how many for each reason.
        converted: the encodings in which documents were read and written, where these differ, and how many there are.
        notices: the kinds of notices, and how many documents have each.
        messages: the kind of each notice -> its message for one of these documents.
        shares: expert -> its mean weight where something was lost, each lost byte counting alike.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    bytes: int = 0
    lost: int = 0
    restored: int = 0
    confident: int = 0
    left_open: int = 0
    right: float = 0.0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    converted: Counter[tuple[str, str]] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """How many there are."""
        return sum(self.outcomes.values())

    @property
    def copied(self) -> int:
        """How many could not be restored."""
        return self.outcomes[COPIED]

    @property
    def expected(self) -> float | None:
        """Which share of what was filled in should be right."""
        return self.right / self.restored if self.restored else None

    def mean_shares(self) -> list[tuple[str, float]]:
        """The experts with their mean weights, the largest first."""
        found = sorted(self.shares.items(), key=lambda one: -one[1])
        return [(name, weight / self.lost) for name, weight in found] if self.lost else []


def sum_up(rows: Iterable[dict[str, Any]]) -> Totals:
    """Add up the documents of a batch."""
    totals = Totals()
    for row in rows:
        done: DocumentResult = row["done"]
        if done.binary:
            totals.left_out += 1
            continue
        totals.outcomes[done.outcome] += 1
        totals.bytes += row["bytes"]
        totals.seconds += done.seconds
        if done.outcome == COPIED:
            totals.reasons[done.reason] += 1
        if done.encoding != done.written:
            totals.converted[done.encoding, done.written] += 1
        totals.notices.update(done.notices.keys())
        totals.messages = done.notices | totals.messages
        totals.lost += done.lost
        totals.restored += done.restored
        totals.confident += done.confident
        totals.left_open += done.left_open
        totals.right += done.restored * (done.expected or 0.0)
        for name, share in done.shares.items():
            totals.shares[name] = totals.shares.get(name, 0.0) + share * done.lost
    return totals
