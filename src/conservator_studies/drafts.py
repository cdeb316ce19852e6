"""Drafts: restorations by networks and memory that several rescorers start from."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from conservator import RestoreOptions, Restorer
from conservator.arrays import Ints
from conservator.channels import Observation
from conservator.decoders import DecodedText
from conservator.decoders.rescoring import Draft as RescoredText
from conservator.decoders.rescoring import Rescored
from conservator.documents import DamagedDocument
from conservator.experts import Expert, Meter
from conservator.pipelines.rescoring import Rescorer, RescoringResult
from conservator.vocabularies import BYTES
from conservator_studies.scored_documents import ScoredRestoration


@dataclass(frozen=True)
class Draft:
    """A document as networks and memory restore it.

    Attributes:
        damaged: the damaged document.
        positions: (n,) decoded positions.
        decoded: bytes and confidences at these positions.
        seconds: CPU time.
    """

    damaged: DamagedDocument
    positions: Ints
    decoded: DecodedText
    seconds: float

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Mask (L,) of known bytes."""
        return np.asarray(self.damaged.tokens != BYTES.mask)

    @property
    def text(self) -> bytes:
        """The restored text."""
        tokens = self.damaged.tokens.copy()
        tokens[self.positions] = self.decoded.tokens
        return tokens.astype(np.uint8).tobytes()

    def score(self, truth: bytes, decoded: DecodedText | None = None, seconds: float = 0.0) -> ScoredRestoration:
        """Compare the draft with the clean text.

        Args:
            truth: the clean text.
            decoded: bytes that replace those of the draft, from a rescorer.
            seconds: CPU time of the rescorer.
        """
        decoded = decoded or self.decoded
        lost = self.damaged.lost
        indices = np.searchsorted(self.positions, lost)
        correct = decoded.tokens[indices] == np.frombuffer(truth, dtype=np.uint8)[lost]
        return ScoredRestoration(correct, decoded.confidence[indices], len(truth), self.seconds + seconds)


@dataclass(frozen=True)
class DraftRecorder(Rescorer):
    """A rescorer that records its input and changes nothing.

    Attributes:
        drafts: recorded drafts, with a CPU time of 0.
    """

    drafts: list[Draft] = field(default_factory=list)

    def __call__(
        self,
        damaged: DamagedDocument,
        positions: Ints,
        decoded: DecodedText,
        meter: Meter,
        observation: Observation | None = None,
    ) -> RescoringResult:
        """Record a draft."""
        self.drafts.append(Draft(damaged, positions, decoded, 0.0))
        nothing = Rescored(RescoredText.of(b"", ()), {})
        return RescoringResult(decoded, nothing, positions[:0], np.zeros((len(positions), 0)))


def make_draft(experts: Sequence[Expert], damaged: bytes, seed: int) -> Draft:
    """Restore lost bytes of a damaged document by networks and memory."""
    recorder = DraftRecorder(())
    restorer = Restorer(experts, RestoreOptions(lost="bytes", effort="best"), select=True, rescorer=recorder)
    start = time.process_time()
    restorer.restore(damaged, seed=seed)
    return replace(recorder.drafts[0], seconds=time.process_time() - start)


def score_rescorer(draft: Draft, document: bytes, rescorer: Rescorer) -> ScoredRestoration:
    """Rescore a draft and compare the result with the clean ``document``."""
    start = time.process_time()
    result = rescorer(draft.damaged, draft.positions, draft.decoded, Meter())
    return draft.score(document, result.decoded, time.process_time() - start)
