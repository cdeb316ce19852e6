"""Restore mixed windows with an inferred composition, and compare with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders import Reading, predict
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field import Inferred
from conservator_studies.metrics import boundary_f1, calibration_error, per_group
from conservator_studies.mixtures import Mixtures
from conservator_studies.result import Metrics, Row
from conservator_studies.statistics import Paired, compare


@dataclass(frozen=True)
class Restored:
    """How well the lost positions of mixed windows were restored, n in all.

    Attributes:
        right: (n,) whether the token was restored.
        confidence: (n,) the probability of the chosen token.
        log_likelihood: (n,) the log-probability of the lost token; None where a decoder does not give it.
        documents: (n,) the document of each position.
        windows: (n,) the window of each position.
        labels: (n,) the true region of each position; -1 where it is of two.
        regions: (N, L) the expert that each position was attributed to.
        cost: of inference and decoding.
    """

    right: Tensor
    confidence: Tensor
    log_likelihood: Tensor | None
    documents: Tensor
    windows: Tensor
    labels: Tensor
    regions: Tensor
    cost: Cost

    def first(self, count: int) -> "Restored":
        """The same for the first windows alone; the cost is still that of all windows."""
        kept = self.windows < count
        return replace(
            self,
            right=self.right[kept],
            confidence=self.confidence[kept],
            log_likelihood=None if self.log_likelihood is None else self.log_likelihood[kept],
            documents=self.documents[kept],
            windows=self.windows[kept],
            labels=self.labels[kept],
            regions=self.regions[:count],
        )

    @property
    def attributes(self) -> bool:
        """Whether it attributes positions of one window to different experts."""
        return bool((self.regions != self.regions[:, :1]).any())


def join(parts: Sequence[Restored]) -> Restored:
    """The restorations of windows, one after the other, as one."""
    first = [0, *accumulate(len(one.regions) for one in parts)]
    likelihoods = [one.log_likelihood for one in parts if one.log_likelihood is not None]
    return Restored(
        torch.cat([one.right for one in parts]),
        torch.cat([one.confidence for one in parts]),
        torch.cat(likelihoods) if likelihoods else None,
        torch.cat([one.documents for one in parts]),
        torch.cat([one.windows + before for before, one in zip(first, parts, strict=False)]),
        torch.cat([one.labels for one in parts]),
        torch.cat([one.regions for one in parts]),
        sum((one.cost for one in parts), Cost()),
    )


def restore_windows(
    team: Team,
    mixed: Mixtures,
    observation: Observation,
    inferred: Inferred,
    reading: Reading | None = None,
) -> Restored:
    """Decode in one step, and compare with the truth."""
    lost = observation.lost
    if not lost.any():
        raise ConservatorError("nothing is lost in these windows, so there is nothing to restore")
    right = torch.zeros(lost.shape, dtype=torch.bool)
    confidence, likelihood = torch.zeros(2, *lost.shape, dtype=torch.float64)
    with team.meter.measure() as spent:
        for found, log_probs in predict(team, observation.readable, lost, inferred.composition, reading):
            place = (found.sequence, found.position)
            best, chosen = log_probs.max(-1)
            right[place] = chosen == mixed.tokens[place]
            confidence[place] = best.exp().double()
            likelihood[place] = log_probs.gather(-1, mixed.tokens[place][:, None])[:, 0].double()
    return judge(right, confidence, mixed, lost, inferred, spent.cost + inferred.cost, likelihood)


def judge(
    right: Tensor,
    confidence: Tensor,
    mixed: Mixtures,
    judged: Tensor,
    inferred: Inferred,
    cost: Cost,
    log_likelihood: Tensor | None = None,
) -> Restored:
    """Select the ``judged`` positions (N, L) from tables (N, L), as a ``Restored``."""
    return Restored(
        right[judged],
        confidence[judged],
        None if log_likelihood is None else log_likelihood[judged],
        mixed.documents[judged],
        judged.nonzero()[:, 0],
        mixed.unambiguous_labels[judged],
        inferred.regions.argmax(-1),
        cost,
    )


def difference(ours: Restored, other: Restored) -> Paired:
    """Compare two restorations of the same positions by their accuracy on each document."""
    pair = [per_group(one.right, one.documents).tolist() for one in (ours, other)]
    return compare(*pair)


def describe(name: str, found: Restored, labels: Tensor, reference: Restored | None = None) -> Row:
    """A row of a table: quality, cost per window, and by how much the reference is better on the same windows.

    ``labels`` (N, L) are the true regions, -1 where a token is of two. ``difference`` is the reference's accuracy minus
    this one's, as a mean over documents.
    """
    windows = len(labels)
    seconds = found.cost.seconds
    row: Row = {
        "method": name,
        "windows": windows,
        "documents": len(found.documents.unique()),
        "accuracy": float(found.right.double().mean()),
        "accuracy_windows": float(per_group(found.right, found.windows).mean()),
        "accuracy_documents": float(per_group(found.right, found.documents).mean()),
        "calibration_error": calibration_error(found.confidence, found.right),
        "evaluations": found.cost.evaluations / windows,
        "seconds": seconds / windows,
        "arithmetic_share": found.cost.arithmetic_seconds / seconds if seconds else 0.0,
    }
    if found.log_likelihood is not None:
        row["log_likelihood"] = float(found.log_likelihood.mean())
    if found.attributes:
        sure = labels >= 0
        row["field_accuracy"] = float((found.regions == labels)[sure].double().mean())
        if sure.all():
            row["boundary_f1"] = boundary_f1(found.regions, labels)
    if reference is not None and reference is not found:
        row |= difference(reference.first(windows), found).as_row()
    return row


def by_region(found: Restored, names: Sequence[str]) -> Metrics:
    """The accuracy on the positions of each true region, as ``accuracy_NAME``."""
    shares = {f"accuracy_{name}": found.right[found.labels == number] for number, name in enumerate(names)}
    return {key: float(right.double().mean()) for key, right in shares.items() if len(right)}
