"""Restore mixed windows with an inferred composition, and compare with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.predict import Reading, predict
from conservator.errors import ConservatorError
from conservator.experts.corpus import hold_out, read_corpus
from conservator.experts.expert import Expert
from conservator.experts.strip import FILTERS
from conservator.field.composite import readable
from conservator.field.composition import Composition
from conservator.field.cost import Cost
from conservator.field.infer import Inferred
from conservator.studies.metrics import boundary_f1, calibration_error, per_group
from conservator.studies.mixtures import Mixtures
from conservator.studies.statistics import Paired, compare

DOMAINS = {"prose": None, "code": "python-comments", "config": "yaml-comments"}  # and the filter of each


@dataclass(frozen=True)
class Restored:
    """What became of the hidden positions of mixed windows, n in all.

    Attributes:
        right: (n,) whether the token was restored.
        confidence: (n,) the probability of the chosen token.
        log_likelihood: the mean log-probability of the lost tokens.
        documents: (n,) the document of each position.
        windows: (n,) the window of each position.
        regions: (N, L) the expert that each position was attributed to; None where the field does not vary.
        cost: of inference and decoding.
    """

    right: Tensor
    confidence: Tensor
    log_likelihood: float
    documents: Tensor
    windows: Tensor
    regions: Tensor | None
    cost: Cost


def read_domains(corpora: Path, split: str, *, least: int = 256, held_out: bool = False) -> dict[str, list[bytes]]:
    """The documents of prose, code and config that have at least ``least`` bytes, comments stripped.

    ``held_out`` takes those that the training of the built-in experts (seed 0) held out: for tuning on ``train``.
    """
    found = {}
    for name, kind in DOMAINS.items():
        path = corpora / f"{name}.{split}.jsonl.gz"
        if not path.exists():
            raise ConservatorError(f"there is no {path}; the corpora folder holds NAME.SPLIT.jsonl.gz files")
        corpus = read_corpus([path], {path: FILTERS[kind]} if kind else {})
        documents = hold_out(corpus, 0)[1] if held_out else corpus.documents
        found[name] = [document for document in documents if len(document) >= least]
    return found


def given(belief: Tensor | Composition, cost: Cost | None = None, doubt: Tensor | None = None) -> Inferred:
    """A field (N, L, m) or a composition that some other method than an engine came to, at a cost."""
    composition = belief if isinstance(belief, Composition) else Composition.of_field(belief)
    field = composition.mean()
    doubt = torch.zeros(field.shape[:2], dtype=torch.float64) if doubt is None else doubt
    informed = torch.ones(len(field), dtype=torch.bool)
    return Inferred(composition, field, field, doubt, informed, (), cost or Cost())


def restore_windows(
    experts: Sequence[Expert],
    mixed: Mixtures,
    observation: Observation,
    inferred: Inferred,
    reading: Reading | None = None,
) -> Restored:
    """Decode in one step, and compare with the truth."""
    hidden, cost = observation.hidden, Cost()
    if not hidden.any():
        raise ConservatorError("nothing is hidden in these windows, so there is nothing to restore")
    right = torch.zeros(hidden.shape, dtype=torch.bool)
    confidence, likelihood = torch.zeros(2, *hidden.shape, dtype=torch.float64)
    with cost.timed():
        for said, log_probs in predict(experts, readable(observation), hidden, inferred.composition, cost, reading):
            place = (said.sequence, said.position)
            best, chosen = log_probs.max(-1)
            right[place] = chosen == mixed.tokens[place]
            confidence[place] = best.exp().double()
            likelihood[place] = log_probs.gather(-1, mixed.tokens[place][:, None])[:, 0].double()
    varies = bool((inferred.regions != inferred.regions[:, :1]).any())
    regions = inferred.regions.argmax(-1) if varies else None
    windows = hidden.nonzero()[:, 0]
    mean = float(likelihood[hidden].mean())
    cost.add(inferred.cost)
    return Restored(right[hidden], confidence[hidden], mean, mixed.documents[hidden], windows, regions, cost)


def difference(ours: Restored, other: Restored) -> Paired:
    """Compare two restorations of the same windows by their accuracy on each document."""
    pair = [per_group(one.right, one.documents).tolist() for one in (ours, other)]
    return compare(*pair)


def describe(name: str, found: Restored, labels: Tensor, reference: Restored | None = None) -> dict[str, object]:
    """A row of a table: quality, cost a window, and the difference of the reference to it."""
    windows = len(labels)
    seconds = found.cost.seconds
    row: dict[str, object] = {
        "method": name,
        "windows": windows,
        "documents": len(found.documents.unique()),
        "accuracy": float(found.right.double().mean()),
        "accuracy_windows": float(per_group(found.right, found.windows).mean()),
        "accuracy_documents": float(per_group(found.right, found.documents).mean()),
        "log_likelihood": found.log_likelihood,
        "calibration_error": calibration_error(found.confidence, found.right),
        "evaluations": found.cost.evaluations / windows,
        "seconds": seconds / windows,
        "arithmetic_share": found.cost.arithmetic_seconds / seconds,
    }
    if found.regions is not None:
        row["field_accuracy"] = float((found.regions == labels).double().mean())
        row["boundary_f1"] = boundary_f1(found.regions, labels)
    if reference is not None and reference is not found:
        paired = difference(reference, found)
        row |= {"reference_minus": paired.difference, "low": paired.low, "high": paired.high}
        row |= {"p": paired.p, "d_z": paired.d_z}
    return row
