"""Documents that methods restore, compared with the clean text byte by byte."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from conservator import Restorer
from conservator.documents import damage, read_damaged
from conservator_studies.metrics import CALIBRATION_BINS, calibration_error
from conservator_studies.result import Metrics
from conservator_studies.statistics import summarise

Filled = tuple[NDArray[np.integer[Any]], NDArray[np.float64]]  # bytes of a document, and their confidence
Method = Callable[[bytes, int], Filled]  # arguments: a damaged document and a seed


@dataclass(frozen=True)
class ScoredRestoration:
    """Comparison of the n lost bytes of a restored document with the clean text.

    Attributes:
        correct: (n,) whether each lost byte was restored correctly.
        confidence: (n,) confidence of each restored byte.
        size: bytes of the document.
        seconds: CPU time.
    """

    correct: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    size: int
    seconds: float

    @property
    def accuracy(self) -> float:
        """Fraction of the lost bytes that were restored correctly."""
        return float(self.correct.mean())


@dataclass(frozen=True)
class ScoredDocuments:
    """Restorations of documents by one method."""

    restorations: Sequence[ScoredRestoration]

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each lost byte of all documents was restored correctly."""
        return np.concatenate([restoration.correct for restoration in self.restorations])

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """Confidence of each restored byte of all documents."""
        return np.concatenate([restoration.confidence for restoration in self.restorations])

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each document."""
        return [restoration.accuracy for restoration in self.restorations]

    def calibration_error(self, bins: int = CALIBRATION_BINS) -> float:
        """Expected calibration error over all restored bytes."""
        return calibration_error(torch.from_numpy(self.confidence), torch.from_numpy(self.correct), bins)

    def summarise(self, metric: str) -> Metrics:
        """Return the mean accuracy over documents as ``metric``, with its 95 % interval and without ``_sd``."""
        row = summarise(metric, self.accuracies)
        row.pop(f"{metric}_sd", None)
        return row


def by_restorer(restorer: Restorer) -> Method:
    """Make a method from a restorer."""

    def method(damaged: bytes, seed: int) -> Filled:
        restoration = restorer.restore(damaged, lost="bytes", seed=seed)
        return restoration.tokens, restoration.confidence

    return method


def score(method: Method, document: bytes, damaged: bytes, seed: int) -> ScoredRestoration:
    """Restore ``damaged`` and compare the result with the clean ``document``."""
    start = time.process_time()
    tokens, confidence = method(damaged, seed)
    seconds, lost = time.process_time() - start, read_damaged(damaged).lost
    correct = tokens[lost] == np.frombuffer(document, dtype=np.uint8)[lost]
    return ScoredRestoration(correct, confidence[lost], len(document), seconds)


def score_all(
    methods: Mapping[str, Method], documents: Iterable[bytes], rate: float, seed: int, *, burst: int = 1
) -> dict[str, ScoredDocuments]:
    """Damage every document and restore it with every method; documents without a lost byte are skipped."""
    scored: dict[str, list[ScoredRestoration]] = {name: [] for name in methods}
    for number, document in enumerate(documents):
        damaged = damage(document, rate, burst=burst, seed=seed + number)
        if len(read_damaged(damaged).lost):
            for name, method in methods.items():
                scored[name].append(score(method, document, damaged, seed + number))
    return {name: ScoredDocuments(restorations) for name, restorations in scored.items()}
