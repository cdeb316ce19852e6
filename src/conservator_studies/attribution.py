"""How well a field attributes positions to their true regions (appendix "Quality of the recovered field")."""

from itertools import pairwise
from math import nan

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator_studies.metrics import TOLERANCE, boundaries, boundary_f1
from conservator_studies.result import Metrics


def attribution(weights: Tensor, labels: Tensor, lost: Tensor) -> Metrics:
    """Compare weights with the true regions.

    Args:
        weights: (N, L, m) of the experts.
        labels: (N, L) the true regions.
        lost: (N, L) True where the token was lost.

    Returns:
        ``field_accuracy`` (and ``_masked`` where lost, ``_boundary`` within four positions of a true change,
        ``_interior`` elsewhere), ``macro_auroc`` one against the rest, ``auroc_K`` and ``recall_K`` of each region,
        ``macro_f1``, ``iou``, ``segment_f1`` and ``boundary_f1``. Means over regions leave out those that no position
        belongs to. The field accuracy of a constant field is not meaningful.
    """
    try:
        from sklearn.metrics import f1_score, jaccard_score, recall_score, roc_auc_score
    except ImportError as error:
        raise ConservatorError("attribution metrics need an extra: pip install 'conservator[studies]'") from error

    found = weights.argmax(-1)
    right = (found == labels).double()
    evidence_radius = near_boundaries(labels)
    truth, guess = labels.flatten().numpy(), found.flatten().numpy()
    classes = labels.unique().tolist()
    is_retrieval = recall_score(truth, guess, labels=classes, average=None)
    areas = [
        roc_auc_score(truth == one, weights[..., one].flatten().numpy()) if len(classes) > 1 else nan for one in classes
    ]
    return {
        "field_accuracy": float(right.mean()),
        "field_accuracy_masked": float(right[lost].mean()),
        "field_accuracy_boundary": float(right[evidence_radius].mean()),
        "field_accuracy_interior": float(right[~evidence_radius].mean()),
        "macro_auroc": float(sum(areas) / len(classes)),
        **{f"auroc_{one}": float(area) for one, area in zip(classes, areas, strict=True)},
        **{f"recall_{one}": float(retrieve) for one, retrieve in zip(classes, is_retrieval, strict=True)},
        "macro_f1": float(f1_score(truth, guess, labels=classes, average="macro")),
        "iou": float(jaccard_score(truth, guess, labels=classes, average="macro")),
        "segment_f1": segment_f1(found, labels),
        "boundary_f1": boundary_f1(found, labels),
    }


def near_boundaries(labels: Tensor) -> Tensor:
    """(N, L) True within four positions of a change of region: the four before it and the four from it on."""
    evidence_radius = torch.zeros(labels.shape, dtype=torch.bool)
    for row, places in enumerate(map(boundaries, labels)):
        for place in places:
            evidence_radius[row, max(0, place - TOLERANCE) : place + TOLERANCE] = True
    return evidence_radius


def segments(labels: Tensor) -> list[tuple[int, int, int]]:
    """The runs of ``labels`` (L,): start, stop, label."""
    edges = [0, *boundaries(labels), len(labels)]
    return [(start, stop, int(labels[start])) for start, stop in pairwise(edges)]


def segment_f1(found: Tensor, truth: Tensor) -> float:
    """F1 of segments over all windows.

    A segment matches a true segment with the same label if their intersection is at least half of their union. At that
    threshold no segment can match two.
    """
    matched = total = 0
    for ours, theirs in zip(found, truth, strict=True):
        left, right = segments(ours), segments(theirs)
        total += len(left) + len(right)
        for start, stop, label in left:
            for first, last, other in right:
                shared = min(stop, last) - max(start, first)
                union = max(stop, last) - min(start, first)
                matched += label == other and shared > 0 and 2 * shared >= union
    return 2 * matched / total if total else 1.0
