"""Metrics of restorations and fields."""

import torch
from torch import Tensor

CALIBRATION_BINS = 15  # bins: of equal width, for the calibration error [untuned]
BOUNDARY_TOLERANCE = 4  # positions: maximum distance of matched boundaries [definition]


def per_group(correct: Tensor, groups: Tensor) -> Tensor:
    """Mean of ``correct`` (n,) over each group of positions (a document or a window), sorted by group number."""
    _, cluster = groups.unique(return_inverse=True)
    count = int(cluster.max()) + 1
    sums = torch.zeros(count, dtype=torch.float64).index_add_(0, cluster, correct.double())
    return sums / torch.bincount(cluster, minlength=count)


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = CALIBRATION_BINS) -> float:
    """Expected calibration error: mean absolute difference of ``confidence`` and accuracy, over bins by size."""
    index = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, confidence.double() - correct.double())
    return float(gaps.abs().sum() / len(confidence))


def boundaries(labels: Tensor) -> list[int]:
    """Positions of ``labels`` (L,) that differ from their predecessor."""
    return ((labels[1:] != labels[:-1]).nonzero()[:, 0] + 1).tolist()


def boundary_f1(predicted: Tensor, truth: Tensor, tolerance: int = BOUNDARY_TOLERANCE) -> float:
    """F1 of one-to-one matched boundaries of ``predicted`` and ``truth`` (N, L), over all windows.

    Boundaries match within ``tolerance`` positions. Greedy matching in order gives the maximum number of matches.
    """
    matched = total = 0
    for predicted_labels, true_labels in zip(predicted, truth, strict=True):
        predicted_boundaries, true_boundaries = boundaries(predicted_labels), boundaries(true_labels)
        total += len(predicted_boundaries) + len(true_boundaries)
        i = j = 0
        while i < len(predicted_boundaries) and j < len(true_boundaries):
            if abs(predicted_boundaries[i] - true_boundaries[j]) <= tolerance:
                matched += 1
                i, j = i + 1, j + 1
            elif predicted_boundaries[i] < true_boundaries[j]:
                i += 1
            else:
                j += 1
    return 2 * matched / total if total else 1.0
