"""Metrics of the attribution of positions to their true regions (appendix "Quality of the recovered field")."""

from collections.abc import Sequence
from itertools import pairwise
from math import nan

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator_studies.metrics import BOUNDARY_TOLERANCE, boundaries, boundary_f1
from conservator_studies.result import Metrics


def attribution(weights: Tensor, labels: Tensor, lost: Tensor, names: Sequence[str]) -> Metrics:
    """Compare weights with the true regions.

    Args:
        weights: (N, L, m) weights of the experts.
        labels: (N, L) true regions.
        lost: (N, L) True where the token was lost.
        names: names of the m regions.

    Returns:
        ``field_accuracy`` (``_masked``: at lost positions, ``_boundary``: within four positions of a true boundary,
        ``_interior``: elsewhere), ``macro_auroc`` (one against the rest), ``auroc_NAME`` and ``recall_NAME`` of each
        region, ``macro_f1``, ``iou``, ``segment_f1`` and ``boundary_f1``. Means over regions exclude regions without
        positions. The field accuracy of a constant field is not meaningful.
    """
    try:
        from sklearn.metrics import f1_score, jaccard_score, recall_score, roc_auc_score
    except ImportError as error:
        raise ConservatorError(
            "attribution metrics need an optional dependency: pip install 'conservator[studies]'"
        ) from error

    predicted = weights.argmax(-1)
    correct = (predicted == labels).double()
    near = near_boundaries(labels)
    y_true, y_pred = labels.flatten().numpy(), predicted.flatten().numpy()
    classes = labels.unique().tolist()
    recall_by_label = recall_score(y_true, y_pred, labels=classes, average=None)
    aurocs = [
        roc_auc_score(y_true == label, weights[..., label].flatten().numpy()) if len(classes) > 1 else nan
        for label in classes
    ]
    return {
        "field_accuracy": float(correct.mean()),
        "field_accuracy_masked": float(correct[lost].mean()),
        "field_accuracy_boundary": float(correct[near].mean()),
        "field_accuracy_interior": float(correct[~near].mean()),
        "macro_auroc": float(sum(aurocs) / len(classes)),
        **{f"auroc_{names[label]}": float(auroc) for label, auroc in zip(classes, aurocs, strict=True)},
        **{f"recall_{names[label]}": float(recall) for label, recall in zip(classes, recall_by_label, strict=True)},
        "macro_f1": float(f1_score(y_true, y_pred, labels=classes, average="macro")),
        "iou": float(jaccard_score(y_true, y_pred, labels=classes, average="macro")),
        "segment_f1": segment_f1(predicted, labels),
        "boundary_f1": boundary_f1(predicted, labels),
    }


def near_boundaries(labels: Tensor) -> Tensor:
    """Mask (N, L) of the four positions before and the four positions from each boundary on."""
    near = torch.zeros(labels.shape, dtype=torch.bool)
    for row, row_boundaries in enumerate(map(boundaries, labels)):
        for boundary in row_boundaries:
            near[row, max(0, boundary - BOUNDARY_TOLERANCE) : boundary + BOUNDARY_TOLERANCE] = True
    return near


def segments(labels: Tensor) -> list[tuple[int, int, int]]:
    """Runs of equal ``labels`` (L,): start, stop, label."""
    edges = [0, *boundaries(labels), len(labels)]
    return [(start, stop, int(labels[start])) for start, stop in pairwise(edges)]


def segment_f1(predicted: Tensor, truth: Tensor) -> float:
    """F1 of segments (N, L) over all windows.

    A segment matches a true segment with the same label if their intersection is at least half of their union. At this
    threshold, a segment matches at most one other segment.
    """
    matched = total = 0
    for predicted_labels, true_labels in zip(predicted, truth, strict=True):
        predicted_segments, true_segments = segments(predicted_labels), segments(true_labels)
        total += len(predicted_segments) + len(true_segments)
        for start, stop, label in predicted_segments:
            for true_start, true_stop, true_label in true_segments:
                intersection = min(stop, true_stop) - max(start, true_start)
                union = max(stop, true_stop) - min(start, true_start)
                matched += label == true_label and intersection > 0 and 2 * intersection >= union
    return 2 * matched / total if total else 1.0
