"""The quality of the recovered field: table "fieldmetrics"."""

from typing import TypedDict

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator.training import ratio
from conservator_studies.attribution import attribution, segments
from conservator_studies.baselines import find_baseline
from conservator_studies.byte import NAMES, OURS, ByteConfig, Trial, prepare
from conservator_studies.metrics import boundaries
from conservator_studies.mixtures import Mixtures
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Metrics, Row, TableSpec
from conservator_studies.study import TextStudy, Track

PRESETS = {"laptop": ByteConfig(), "paper": ByteConfig()}
WEIGHTS = "local_bayes_weights"
ALL = (
    ("field_accuracy", "accuracy"),
    ("field_accuracy_masked", "masked"),
    ("field_accuracy_boundary", "boundary"),
    ("field_accuracy_interior", "interior"),
)
SHAPES = (
    ("macro_f1", "macro F1"),
    ("iou", "IoU"),
    ("segment_f1", "segment F1"),
    ("boundary_f1", "boundary F1"),
    ("macro_auroc", "macro AUROC"),
)
REGIONS = tuple((f"{kind}_{name}", f"{kind} {name}") for kind in ("auroc", "recall") for name in ByteConfig().domains)
TABLES = [
    TableSpec("Positions attributed to their region", [Column(*one, 3) for one in ALL], "tab:fieldmetrics"),
    TableSpec("Regions and boundaries", [Column(*one, 3) for one in SHAPES], "tab:fieldmetrics"),
    TableSpec("Region by region", [Column(*one, 3) for one in REGIONS], "section Quality of the recovered field"),
    TableSpec(
        "Lost bytes where our region is not the label",
        [
            Column("disagreed", "positions", 0),
            Column("accuracy_ours", "ours", 3),
            Column("accuracy_label", "label router", 3),
            Column("failed_segments", "segments lost", 0),
            Column("all_segments", "of", 0),
        ],
    ),
]
LABELS = NAMES | {OURS: "Local evidence, regions (ours)", WEIGHTS: "Local evidence, weights", "label": "Disagreement"}
FIELDS = ("local_eg", "demix", "demix_heldout", "hmm", "hmm_heldout", "field_average", "equal")
PAPER = {
    OURS: {
        "field_accuracy": 0.976,
        "field_accuracy_masked": 0.972,
        "field_accuracy_boundary": 0.687,
        "field_accuracy_interior": 0.987,
        "macro_f1": 0.972,
        "iou": 0.948,
        "segment_f1": 0.979,
        "boundary_f1": 0.720,
        "macro_auroc": 0.993,
        "auroc_prose": 0.985,
        "auroc_code": 0.996,
        "auroc_config": 0.996,
        "recall_prose": 0.924,
        "recall_code": 0.995,
        "recall_config": 0.998,
    },
    "field_average": {
        "field_accuracy": 0.669,
        "field_accuracy_masked": 0.662,
        "field_accuracy_boundary": 0.502,
        "field_accuracy_interior": 0.675,
        "macro_f1": 0.399,
        "segment_f1": 0.645,
        "boundary_f1": 0.0,
    },
    "equal": {
        "field_accuracy": 0.334,
        "field_accuracy_masked": 0.340,
        "field_accuracy_boundary": 0.498,
        "field_accuracy_interior": 0.327,
        "macro_f1": 0.246,
        "segment_f1": 0.008,
        "boundary_f1": 0.0,
    },
}
REACH = 40  # positions on either side of a boundary that the figure shows
EXAMPLES, SHOWN = 3, 160  # how many failed segments are shown, and how many bytes of each


class FailedSegment(TypedDict):
    """A segment of which most positions are attributed to an expert of another domain.

    Attributes:
        share: the share of its positions that is attributed to its label.
        label: its domain.
        taken: the domain that most of it is attributed to.
        losses: domain -> the mean loss of that domain's expert on its bytes while they are hidden, nats per byte.
        shape: its text, as the function ``shape`` returns it.
    """

    share: float
    label: str
    taken: str
    losses: Metrics
    shape: str


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Compare fields with the true regions: ours by its regions and by its weights, and those of baselines."""
    trial = prepare(config, seed, resources)
    ours = trial.setting.bayes
    fields = {OURS: ours.regions, WEIGHTS: ours.field}
    for name in track(FIELDS, "field"):
        fields[name] = find_baseline(name)(trial.setting).inferred.regions
    rows = [row_of(name, weights, trial) for name, weights in fields.items()]
    rows.append(disagreement(trial))
    return Findings(rows, {"field": draw(fields, trial.mixed)})


def row_of(name: str, weights: Tensor, trial: Trial) -> Row:
    """All attribution metrics of a field (N, L, m); the interval is a bootstrap over documents."""
    mixed = trial.mixed
    found = attribution(weights, mixed.labels, trial.setting.observation.lost)
    for number, region in enumerate(mixed.names):
        for kind in ("auroc", "recall"):
            if f"{kind}_{number}" in found:
                found[f"{kind}_{region}"] = found.pop(f"{kind}_{number}")
    right = (weights.argmax(-1) == mixed.labels).flatten()
    spread = ratio(right, torch.ones_like(right), mixed.documents.flatten())
    interval = {"field_accuracy_low": spread.low, "field_accuracy_high": spread.high}
    return {"method": name, "windows": len(mixed.tokens), **found, **interval, "paper": PAPER.get(name, {})}


def disagreement(trial: Trial) -> Row:
    """Compare ours with the label router where our region is not the label, and describe the segments there."""
    mixed, lost = trial.mixed, trial.setting.observation.lost
    ours = trial.restore(find_baseline(OURS)(trial.setting))
    label = trial.restore(find_baseline("hard_label")(trial.setting))
    regions = trial.setting.bayes.regions.argmax(-1)
    apart = (regions != mixed.labels)[lost]
    row: Row = {"method": "label", "disagreed": int(apart.sum()), "paper": {}}
    if apart.any():
        row |= {
            "accuracy_ours": float(ours.right[apart].double().mean()),
            "accuracy_label": float(label.right[apart].double().mean()),
        }
    failed: list[FailedSegment] = []
    total = 0
    losses = trial.setting.held_out_scores.values
    for window, labels in enumerate(mixed.labels):
        for start, stop, region in segments(labels):
            total += 1
            share = float((regions[window, start:stop] == region).double().mean())
            if share < 0.5:
                means = losses[window, start:stop].nanmean(dim=0).tolist()
                failed.append(
                    {
                        "share": share,
                        "label": mixed.names[region],
                        "taken": mixed.names[int(regions[window, start:stop].mode().values)],
                        "losses": dict(zip(mixed.names, means, strict=True)),
                        "shape": shape(bytes(mixed.tokens[window, start:stop].tolist()[:SHOWN])),
                    }
                )
    worst = sorted(failed, key=lambda one: one["share"])[:EXAMPLES]
    better = sum(one["losses"][one["taken"]] < one["losses"][one["label"]] for one in failed)
    return row | {"failed_segments": len(failed), "foreign": better, "all_segments": total, "examples": worst}


def shape(text: bytes) -> str:
    """The kind of a text without its content: letters become ``a`` or ``A``, digits ``9``, and the rest stays."""
    decoded = text.decode(errors="replace")
    return "".join("a" if one.islower() else "A" if one.isalpha() else "9" if one.isdigit() else one for one in decoded)


def draw(fields: dict[str, Tensor], mixed: Mixtures) -> Figure:
    """The share of positions attributed right, against the distance to the nearest true boundary."""
    figure = new_figure(7, 3.6)
    axes = figure.subplots()
    distance = signed_distance(mixed.labels)
    places = np.arange(-REACH, REACH)
    for name, colour, style in (
        ("demix", GREY, "-"),
        ("hmm_heldout", ORANGE, "-"),
        (WEIGHTS, BLUE, ":"),
        (OURS, BLUE, "-"),
    ):
        right = (fields[name].argmax(-1) == mixed.labels).double()
        shares = [float(right[distance == place].mean()) for place in places]
        axes.plot(places, shares, color=colour, linestyle=style, label=LABELS[name])
    axes.axvline(-0.5, color="0.8", linewidth=1)
    axes.set(xlabel="position, counted from a true boundary", ylabel="attributed to its region", ylim=(None, 1.01))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def signed_distance(labels: Tensor) -> Tensor:
    """(N, L) the distance to the nearest boundary: 0 at the first position of a region, -1 just before it."""
    length = labels.shape[1]
    distance = torch.full(labels.shape, length)
    for row, places in enumerate(map(boundaries, labels)):
        for place in places:
            offset = torch.arange(length) - place
            closer = (offset + 0.5).abs() < (distance[row] + 0.5).abs()
            distance[row] = torch.where(closer, offset, distance[row])
    return distance


def conclude(rows: list[Row]) -> str:
    """Describe the positions that are not attributed to their label."""
    row = rows[-1]
    if not row["disagreed"]:
        return ""
    text = (
        f"Of {row['all_segments']} segments, {row['failed_segments']} are attributed to another expert for the most "
        f"part; {row['foreign']} of these are text that this other expert predicts better while it is hidden. "
        f"On the {row['disagreed']} lost bytes where our region is not the label, ours restores "
        f"{row['accuracy_ours']:.3f} and the label router {row['accuracy_label']:.3f}: "
    )
    lead, spread = row["accuracy_ours"] - row["accuracy_label"], (0.5 / row["disagreed"]) ** 0.5
    text += ("neither" if abs(lead) < 2 * spread else "ours" if lead > 0 else "the label") + " is better there."
    for one in row["examples"]:
        body = "\n".join(f"    {line}" for line in one["shape"].splitlines() if line.strip())
        taken = f"mostly attributed to {one['taken']} ({one['share']:.0%} to its label)"
        nats = ", ".join(f"{name} {loss:.2f}" for name, loss in one["losses"].items())
        text += f"\n\nLabelled {one['label']}, {taken}; nats a byte: {nats}. Its shape:\n\n{body}"
    return text


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
