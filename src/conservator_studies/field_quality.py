"""Quality of the recovered field: table "fieldmetrics"."""

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
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import Study, Track

PRESETS = {"laptop": ByteConfig(), "paper": ByteConfig()}
WEIGHTS = "local_bayes_weights"
POSITIONS = (
    ("field_accuracy", "accuracy"),
    ("field_accuracy_masked", "masked"),
    ("field_accuracy_boundary", "boundary"),
    ("field_accuracy_interior", "interior"),
)
SEGMENTS = (
    ("macro_f1", "macro F1"),
    ("iou", "IoU"),
    ("segment_f1", "segment F1"),
    ("boundary_f1", "boundary F1"),
    ("macro_auroc", "macro AUROC"),
)
REGIONS = tuple((f"{kind}_{name}", f"{kind} {name}") for kind in ("auroc", "recall") for name in ByteConfig().domains)
TABLES = [
    TableSpec(
        "Accuracy of the attribution of positions to regions",
        [Column(*column, 3) for column in POSITIONS],
        "tab:fieldmetrics",
    ),
    TableSpec("Regions and boundaries", [Column(*column, 3) for column in SEGMENTS], "tab:fieldmetrics"),
    TableSpec("By region", [Column(*column, 3) for column in REGIONS], "section Quality of the recovered field"),
    TableSpec(
        "Lost bytes where the inferred region differs from the label",
        [
            Column("disagreed", "positions", 0),
            Column("accuracy_ours", "ours", 3),
            Column("accuracy_label", "label router", 3),
            Column("failed_segments", "failed segments", 0),
            Column("all_segments", "all segments", 0),
        ],
    ),
]
LABELS = NAMES | {OURS: "Local evidence, regions (ours)", WEIGHTS: "Local evidence, weights", "label": "Disagreement"}
FIELDS = ("local_eg", "demix", "demix_heldout", "hmm", "hmm_heldout", "field_average", "equal")
METRICS = [metric for metric, _ in (*POSITIONS, *SEGMENTS, *REGIONS)]
CONSTANT_METRICS = [*METRICS[:4], "macro_f1", "segment_f1", "boundary_f1"]  # metrics of constant weights in the paper
PAPER_OURS = (
    *(0.976, 0.972, 0.687, 0.987),
    *(0.972, 0.948, 0.979, 0.720, 0.993),
    *(0.985, 0.996, 0.996, 0.924, 0.995, 0.998),
)
PAPER = {
    OURS: dict(zip(METRICS, PAPER_OURS, strict=True)),
    "field_average": dict(zip(CONSTANT_METRICS, (0.669, 0.662, 0.502, 0.675, 0.399, 0.645, 0.0), strict=True)),
    "equal": dict(zip(CONSTANT_METRICS, (0.334, 0.340, 0.498, 0.327, 0.246, 0.008, 0.0), strict=True)),
}
MAX_DISTANCE = 40  # positions: range of the figure on each side of a boundary [untuned]
MAX_EXAMPLES = 3  # segments: number of failed segments in the conclusion [untuned]
MAX_EXAMPLE_BYTES = 160  # bytes: length of an example [untuned]


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Compare fields with the true regions: our regions, our weights, and the fields of baselines."""
    trial = prepare(config, seed, resources)
    ours = trial.setting.bayes
    fields = {OURS: ours.regions, WEIGHTS: ours.field}
    for name in track(FIELDS, "field"):
        fields[name] = find_baseline(name)(trial.setting).inferred.regions
    rows = [row_of(name, weights, trial) for name, weights in fields.items()]
    rows.append(disagreement(trial))
    return Findings(rows, {"field": draw(fields, trial.mixed)})


def row_of(name: str, weights: Tensor, trial: Trial) -> Row:
    """Compute all attribution metrics of a field (N, L, m); the interval is a bootstrap over documents."""
    mixed = trial.mixed
    metrics = attribution(weights, mixed.labels, trial.setting.observation.lost, mixed.names)
    correct = (weights.argmax(-1) == mixed.labels).flatten()
    estimate = ratio(correct, torch.ones_like(correct), mixed.documents.flatten())
    interval = {"field_accuracy_low": estimate.low, "field_accuracy_high": estimate.high}
    return {"method": name, "windows": len(mixed.tokens), **metrics, **interval, "paper": PAPER.get(name, {})}


def disagreement(trial: Trial) -> Row:
    """Compare ours with the label router where regions and labels differ, and describe the failed segments."""
    mixed, lost = trial.mixed, trial.setting.observation.lost
    ours = trial.restore(find_baseline(OURS)(trial.setting))
    label_router = trial.restore(find_baseline("hard_label")(trial.setting))
    regions = trial.setting.bayes.regions.argmax(-1)
    differs = (regions != mixed.labels)[lost]
    row: Row = {"method": "label", "disagreed": int(differs.sum()), "paper": {}}
    if differs.any():
        row |= {
            "accuracy_ours": float(ours.correct[differs].double().mean()),
            "accuracy_label": float(label_router.correct[differs].double().mean()),
        }
    failed: list[Row] = []  # segments with most positions attributed to the expert of another domain
    total = 0
    losses = trial.setting.held_out_scores.values
    for window, labels in enumerate(mixed.labels):
        for start, stop, region in segments(labels):
            total += 1
            fraction = float((regions[window, start:stop] == region).double().mean())
            if fraction < 0.5:
                means = losses[window, start:stop].nanmean(dim=0).tolist()
                failed.append(
                    {
                        "share": fraction,  # of positions attributed to the label
                        "label": mixed.names[region],
                        "taken": mixed.names[int(regions[window, start:stop].mode().values)],
                        "losses": dict(zip(mixed.names, means, strict=True)),  # nats per hidden byte, by expert
                        "shape": shape(bytes(mixed.tokens[window, start:stop].tolist()[:MAX_EXAMPLE_BYTES])),
                    }
                )
    worst = sorted(failed, key=lambda segment: segment["share"])[:MAX_EXAMPLES]
    better = sum(segment["losses"][segment["taken"]] < segment["losses"][segment["label"]] for segment in failed)
    return row | {"failed_segments": len(failed), "foreign": better, "all_segments": total, "examples": worst}


def shape(text: bytes) -> str:
    """Anonymise a text: letters become ``a`` or ``A``, digits become ``9``, other characters are kept."""
    decoded = text.decode(errors="replace")
    return "".join(
        "a" if char.islower() else "A" if char.isalpha() else "9" if char.isdigit() else char for char in decoded
    )


def draw(fields: dict[str, Tensor], mixed: Mixtures) -> Figure:
    """Plot the field accuracy as a function of the distance to the nearest true boundary."""
    figure = new_figure(7, 3.6)
    axes = figure.subplots()
    distance = signed_distance(mixed.labels)
    distances = np.arange(-MAX_DISTANCE, MAX_DISTANCE)
    for name, colour, style in (
        ("demix", GREY, "-"),
        ("hmm_heldout", ORANGE, "-"),
        (WEIGHTS, BLUE, ":"),
        (OURS, BLUE, "-"),
    ):
        correct = (fields[name].argmax(-1) == mixed.labels).double()
        accuracy = [float(correct[distance == offset].mean()) for offset in distances]
        axes.plot(distances, accuracy, color=colour, linestyle=style, label=LABELS[name])
    axes.axvline(-0.5, color="0.8", linewidth=1)
    axes.set(xlabel="position relative to a true boundary", ylabel="field accuracy", ylim=(None, 1.01))
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def signed_distance(labels: Tensor) -> Tensor:
    """Signed distance (N, L) to the nearest boundary: 0 at the first position of a region, -1 just before it."""
    length = labels.shape[1]
    distance = torch.full(labels.shape, length)
    for row, positions in enumerate(map(boundaries, labels)):
        for position in positions:
            offset = torch.arange(length) - position
            closer = (offset + 0.5).abs() < (distance[row] + 0.5).abs()
            distance[row] = torch.where(closer, offset, distance[row])
    return distance


def conclude(rows: list[Row]) -> str:
    """Describe the positions whose inferred region differs from the label."""
    row = rows[-1]
    if not row["disagreed"]:
        return ""
    text = (
        f"{row['failed_segments']} of {row['all_segments']} segments are mostly attributed to the expert of another "
        f"domain. In {row['foreign']} of these, that expert has the lower loss on the hidden text. On the "
        f"{row['disagreed']} lost bytes where the inferred region differs from the label, the accuracy is "
        f"{row['accuracy_ours']:.3f} with local evidence and {row['accuracy_label']:.3f} with the label router: "
    )
    gain, standard_error = row["accuracy_ours"] - row["accuracy_label"], (0.5 / row["disagreed"]) ** 0.5
    if abs(gain) < 2 * standard_error:
        text += "no significant difference."
    else:
        text += ("local evidence" if gain > 0 else "the label router") + " is better."
    for segment in row["examples"]:
        body = "\n".join(f"    {line}" for line in segment["shape"].splitlines() if line.strip())
        taken = f"mostly attributed to {segment['taken']} ({segment['share']:.0%} attributed to the label)"
        nats = ", ".join(f"{name} {loss:.2f}" for name, loss in segment["losses"].items())
        text += f"\n\nLabelled {segment['label']}, {taken}; nats per byte: {nats}. Anonymised text:\n\n{body}"
    return text


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run, conclude=conclude)
