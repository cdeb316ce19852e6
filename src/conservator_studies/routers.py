"""Local routers without the evidence correction, plain and held out: table "routers"."""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from conservator.evaluation.figures import BLUE, GREY, ORANGE, new_figure
from conservator_studies.byte import COMPARISON, NAMES, OURS, ByteConfig, interval, prepare, restore_all, tabulate
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

PRESETS = {"laptop": ByteConfig(), "paper": ByteConfig()}
TABLES = [
    TableSpec(
        "Routers: restoration and field accuracy",
        [*COMPARISON, Column("field_accuracy", "field accuracy", 3)],
        "tab:routers, column Byte",
    ),
]
LABELS = NAMES
BASELINES = (
    *("local_bayes", "demix", "demix_heldout", "raw_loss", "raw_loss_heldout", "hmm", "hmm_heldout"),
    *("equal", "global", "packllm_opt"),
)
PAPER = {
    "local_bayes": {"accuracy_documents": 0.66, "field_accuracy": 0.97},
    "demix": {"accuracy_documents": 0.61, "field_accuracy": 0.96},
    "raw_loss": {"accuracy_documents": 0.55, "field_accuracy": 0.57},
    "equal": {"accuracy_documents": 0.56},
    "global": {"accuracy_documents": 0.62},
    "packllm_opt": {"accuracy_documents": 0.62},
}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows by every router."""
    trial = prepare(config, seed, resources)
    found = restore_all(trial, BASELINES, track, "routers")
    rows = tabulate(found, trial, PAPER, found[OURS])
    return Findings(rows, {"routers": draw(rows)})


def draw(rows: list[Row]) -> Figure:
    """The restoration accuracy of each router against its field accuracy."""
    figure = new_figure(6.5, 4.2)
    axes = figure.subplots()
    heights = np.array([row["accuracy_documents"] for row in rows if "field_accuracy" in row])
    beside = iter(apart(heights, (heights.max() - heights.min()) / 9))
    for row in rows:
        if "field_accuracy" not in row:
            axes.axhline(row["accuracy_documents"], color=GREY, linewidth=1, linestyle=":")
            place = (0.005, row["accuracy_documents"])
            axes.annotate(
                LABELS[row["method"]], place, xycoords=("axes fraction", "data"), fontsize=8, color=GREY, va="bottom"
            )
            continue
        colour = BLUE if row["method"] == OURS else ORANGE
        filled = colour if "heldout" in row["method"] or row["method"] == OURS else "white"
        point = (row["field_accuracy"], row["accuracy_documents"])
        axes.plot(*point, "o", color=colour, mfc=filled, ms=7)
        axes.annotate(
            LABELS[row["method"]],
            point,
            xytext=(1.03, next(beside)),
            textcoords=("axes fraction", "data"),
            fontsize=8,
            va="center",
            arrowprops={"arrowstyle": "-", "color": "0.8", "shrinkA": 2, "shrinkB": 5},
        )
    axes.set(xlabel="field accuracy", ylabel="restoration accuracy")
    axes.margins(x=0.1, y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def apart(values: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Move the values up, as little as possible, so that any two are at least ``gap`` apart."""
    order = np.argsort(values, kind="stable")
    moved = values.copy()
    for lower, upper in pairwise(order):
        moved[upper] = max(moved[upper], moved[lower] + gap)
    return moved


def conclude(rows: list[Row]) -> str:
    """The HMM router at byte scale, which the paper has not run."""
    found = {row["method"]: row for row in rows}

    def figures(name: str) -> str:
        row = found[name]
        return (
            f"{row['accuracy_documents']:.3f} (field {row['field_accuracy']:.3f}; ours minus it "
            f"{interval(row)}, p = {row['p']:.4f})"
        )

    ours, equal = found[OURS], found["equal"]
    place = "above" if found["hmm"]["accuracy_documents"] > equal["accuracy_documents"] else "below"
    return (
        f"**The HMM router at byte scale**, which the paper did not run, restores {figures('hmm')} on plain scores and "
        f"{figures('hmm_heldout')} on scores of tokens while they are hidden; local evidence restores "
        f"{ours['accuracy_documents']:.3f} with a field accuracy of {ours['field_accuracy']:.3f}, equal weights "
        f"{equal['accuracy_documents']:.3f}. At every other scale the paper found the HMM router below equal weights; "
        f"here it is {place} them. The routers differ from ours in what they leave out of the evidence, and that is "
        "little where the field is at a vertex; docs/LOG.md measures why the paper's raw-loss router falls so low."
    )


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run, conclude=conclude)
