"""Restore mixed windows with an inferred composition, and compare the result with the clean text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders import ContextPolicy, predict
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field import Inferred
from conservator_studies.metrics import boundary_f1, calibration_error, per_group
from conservator_studies.mixtures import Mixtures
from conservator_studies.result import Metrics, Row
from conservator_studies.statistics import compare


@dataclass(frozen=True)
class Restored:
    """Evaluation of the n lost positions of mixed windows.

    Attributes:
        correct: (n,) whether the predicted token is correct.
        confidence: (n,) probability of the predicted token.
        log_likelihood: (n,) log-probability of the clean token; None if the decoder does not compute it.
        documents: (n,) document of each position.
        windows: (n,) window of each position.
        labels: (n,) true region of each position; -1 if the token belongs to two regions.
        regions: (N, L) expert that each position is attributed to.
        cost: cost of inference and decoding.
    """

    correct: Tensor
    confidence: Tensor
    log_likelihood: Tensor | None
    documents: Tensor
    windows: Tensor
    labels: Tensor
    regions: Tensor
    cost: Cost

    def first(self, count: int) -> "Restored":
        """Keep the first ``count`` windows; the cost remains the cost of all windows."""
        names = ("correct", "confidence", "log_likelihood", "documents", "windows", "labels")
        tables = {name: table for name in names if (table := getattr(self, name)) is not None}
        selected = {name: table[self.windows < count] for name, table in tables.items()}
        return replace(self, **selected, regions=self.regions[:count])

    @property
    def document_accuracy(self) -> float:
        """Accuracy, mean over documents."""
        return float(per_group(self.correct, self.documents).mean())

    @property
    def window_accuracy(self) -> float:
        """Accuracy, mean over windows."""
        return float(per_group(self.correct, self.windows).mean())

    @property
    def attributes(self) -> bool:
        """Whether positions of one window are attributed to different experts."""
        return bool((self.regions != self.regions[:, :1]).any())


def join(parts: Sequence[Restored]) -> Restored:
    """Concatenate evaluations of windows."""
    first_window = [0, *accumulate(len(part.regions) for part in parts)]
    log_likelihoods = [part.log_likelihood for part in parts if part.log_likelihood is not None]
    return Restored(
        torch.cat([part.correct for part in parts]),
        torch.cat([part.confidence for part in parts]),
        torch.cat(log_likelihoods) if log_likelihoods else None,
        torch.cat([part.documents for part in parts]),
        torch.cat([part.windows + offset for offset, part in zip(first_window, parts, strict=False)]),
        torch.cat([part.labels for part in parts]),
        torch.cat([part.regions for part in parts]),
        sum((part.cost for part in parts), Cost()),
    )


def restore_windows(
    team: Team,
    mixed: Mixtures,
    observation: Observation,
    inferred: Inferred,
    context_policy: ContextPolicy | None = None,
) -> Restored:
    """Decode in one step, and compare with the clean tokens."""
    lost = observation.lost
    if not lost.any():
        raise ConservatorError("nothing is lost in these windows; the restoration needs at least one lost token")
    correct = torch.zeros(lost.shape, dtype=torch.bool)
    confidence, log_likelihood = torch.zeros(2, *lost.shape, dtype=torch.float64)
    with team.meter.measure() as spent:
        for batch, log_probs in predict(team, observation.readable, lost, inferred.composition, context_policy):
            at = (batch.sequence, batch.position)
            best, predicted = log_probs.max(-1)
            correct[at] = predicted == mixed.tokens[at]
            confidence[at] = best.exp().double()
            log_likelihood[at] = log_probs.gather(-1, mixed.tokens[at][:, None])[:, 0].double()
    return select_positions(correct, confidence, mixed, lost, inferred, spent.cost + inferred.cost, log_likelihood)


def select_positions(
    correct: Tensor,
    confidence: Tensor,
    mixed: Mixtures,
    selected: Tensor,
    inferred: Inferred,
    cost: Cost,
    log_likelihood: Tensor | None = None,
) -> Restored:
    """Select the positions ``selected`` (N, L) from tables (N, L)."""
    return Restored(
        correct[selected],
        confidence[selected],
        None if log_likelihood is None else log_likelihood[selected],
        mixed.documents[selected],
        selected.nonzero()[:, 0],
        mixed.unambiguous_labels[selected],
        inferred.regions.argmax(-1),
        cost,
    )


def difference(ours: Restored, other: Restored, prefix: str = "") -> Metrics:
    """Compare two restorations of the same positions by their accuracy on each document, as ``compare`` does."""
    first, second = (per_group(restored.correct, restored.documents).tolist() for restored in (ours, other))
    return compare(first, second, prefix)


def describe(name: str, restored: Restored, labels: Tensor, reference: Restored | None = None) -> Row:
    """Make the row of a method: quality, cost per window, and difference from a reference on the same windows.

    ``labels`` (N, L) are the true regions; -1 if a token belongs to two regions. ``difference`` is the accuracy of the
    reference minus the accuracy of the method, as a mean over documents.
    """
    windows = len(labels)
    seconds = restored.cost.seconds
    row: Row = {
        "method": name,
        "windows": windows,
        "documents": len(restored.documents.unique()),
        "accuracy": float(restored.correct.double().mean()),
        "accuracy_windows": restored.window_accuracy,
        "accuracy_documents": restored.document_accuracy,
        "calibration_error": calibration_error(restored.confidence, restored.correct),
        "evaluations": restored.cost.evaluations / windows,
        "seconds": seconds / windows,
        "arithmetic_share": restored.cost.arithmetic_seconds / seconds if seconds else 0.0,
    }
    if restored.log_likelihood is not None:
        row["log_likelihood"] = float(restored.log_likelihood.mean())
    if restored.attributes:
        unambiguous = labels >= 0
        row["field_accuracy"] = float((restored.regions == labels)[unambiguous].double().mean())
        if unambiguous.all():
            row["boundary_f1"] = boundary_f1(restored.regions, labels)
    if reference is not None and reference is not restored:
        row |= difference(reference.first(windows), restored)
    return row


def by_region(restored: Restored, names: Sequence[str]) -> Metrics:
    """Compute the accuracy in each true region, as ``accuracy_NAME``."""
    correct = {f"accuracy_{name}": restored.correct[restored.labels == number] for number, name in enumerate(names)}
    return {key: float(values.double().mean()) for key, values in correct.items() if len(values)}
