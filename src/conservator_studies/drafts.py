"""What networks and memory say of a document, decoded once, for several rewriters to go on from."""

import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from conservator import RestoreOptions, Restorer
from conservator.decoders import DecodedText
from conservator.decoders.rescoring import Rescored
from conservator.documents import DamagedDocument, read_damaged
from conservator.experts import Meter
from conservator.pipelines.rescoring import Rescorer, RescoringResult
from conservator.vocabularies import BYTES

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """The n lost bytes of a document.

    Attributes:
        right: (n,) whether each came back.
        confidence: (n,) of each.
        size: the bytes of the document.
        seconds: of the processor.
    """

    right: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    size: int
    seconds: float

    @property
    def share(self) -> float:
        """Which share came back."""
        return float(self.right.mean())

    def later(self, seconds: float) -> "Outcome":
        """The same, for so many seconds more."""
        return replace(self, seconds=self.seconds + seconds)


@dataclass(frozen=True)
class Draft:
    """A document as networks and memory restore it.

    Attributes:
        damaged: the document.
        positions: (n,) the positions that were read.
        decoded: what was decided there.
        seconds: of the processor.
    """

    damaged: DamagedDocument
    positions: Ints
    decoded: DecodedText
    seconds: float

    @property
    def visible(self) -> NDArray[np.bool_]:
        """(L,) which bytes are known."""
        return np.asarray(self.damaged.tokens != BYTES.mask)

    @property
    def text(self) -> bytes:
        """The restored text."""
        tokens = self.damaged.tokens.copy()
        tokens[self.positions] = self.decoded.tokens
        return tokens.astype(np.uint8).tobytes()

    def outcome(self, truth: bytes, decoded: DecodedText | None = None, seconds: float = 0.0) -> Outcome:
        """What came back by the draft, or by what was ``decoded`` from it in so many seconds more."""
        decoded = decoded or self.decoded
        lost = self.damaged.lost
        places = np.searchsorted(self.positions, lost)
        right = decoded.tokens[places] == np.frombuffer(truth, dtype=np.uint8)[lost]
        return Outcome(right, decoded.confidence[places], len(truth), self.seconds + seconds)


@dataclass(frozen=True)
class Keeper(Rescorer):
    """Changes nothing, and keeps what it was given.

    Attributes:
        kept: drafts; they took no time yet.
    """

    kept: list[Draft] = field(default_factory=list)

    def __call__(
        self, damaged: DamagedDocument, positions: Ints, decoded: DecodedText, meter: Meter
    ) -> RescoringResult:
        """Keep a draft."""
        self.kept.append(Draft(damaged, positions, decoded, 0.0))
        return RescoringResult(decoded, Rescored(b"", {}, {}), np.zeros((len(positions), 0)))


class Drafter(Restorer):
    """A restorer of which only the draft is wanted."""

    keeper = Keeper(())

    def rescorer(self, options: RestoreOptions) -> Rescorer:
        """Who keeps the draft."""
        return self.keeper

    def draft(self, damaged: bytes, seed: int) -> Draft:
        """The draft of a damaged document."""
        self.keeper = Keeper(())
        start = time.process_time()
        self.restore(damaged, seed=seed)
        return replace(self.keeper.kept[0], seconds=time.process_time() - start)


def restored(restorer: Restorer, document: bytes, damaged: bytes, seed: int) -> Outcome:
    """What a restorer brings back."""
    start = time.process_time()
    found = restorer.restore(damaged, seed=seed)
    seconds, lost = time.process_time() - start, read_damaged(damaged).lost
    right = found.tokens[lost] == np.frombuffer(document, dtype=np.uint8)[lost]
    return Outcome(right, found.confidence[lost], len(document), seconds)


def written(draft: Draft, document: bytes, rescorer: Rescorer) -> Outcome:
    """What a rewriter brings back, from a draft."""
    start = time.process_time()
    again = rescorer(draft.damaged, draft.positions, draft.decoded, Meter())
    return draft.outcome(document, again.decoded, time.process_time() - start)
