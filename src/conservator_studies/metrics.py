"""How good a restoration and its field are."""

import torch
from torch import Tensor

BINS = 15
TOLERANCE = 4


def per_group(right: Tensor, groups: Tensor) -> Tensor:
    """The mean of ``right`` (n,) over the positions of each group (n,), a document or a window, in their order."""
    _, cluster = groups.unique(return_inverse=True)
    count = int(cluster.max()) + 1
    sums = torch.zeros(count, dtype=torch.float64).index_add_(0, cluster, right.double())
    return sums / torch.bincount(cluster, minlength=count)


def calibration_error(confidence: Tensor, right: Tensor, bins: int = BINS) -> float:
    """The mean distance of confidence (n,) from accuracy over equal bins, weighted by their size."""
    place = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, place, confidence.double() - right.double())
    return float(gaps.abs().sum() / len(confidence))


def boundaries(labels: Tensor) -> list[int]:
    """The positions of ``labels`` (L,) that differ from the one before."""
    return ((labels[1:] != labels[:-1]).nonzero()[:, 0] + 1).tolist()


def boundary_f1(found: Tensor, truth: Tensor, tolerance: int = TOLERANCE) -> float:
    """The one-to-one F1 of boundaries of ``found`` and ``truth`` (N, L), over all windows together.

    A found boundary matches a true one at most ``tolerance`` positions away. Both lists are matched greedily in order,
    which gives as many matches as any assignment.
    """
    matched = total = 0
    for ours, theirs in zip(found, truth, strict=True):
        left, right = boundaries(ours), boundaries(theirs)
        total += len(left) + len(right)
        one = other = 0
        while one < len(left) and other < len(right):
            if abs(left[one] - right[other]) <= tolerance:
                matched += 1
                one, other = one + 1, other + 1
            elif left[one] < right[other]:
                one += 1
            else:
                other += 1
    return 2 * matched / total if total else 1.0
