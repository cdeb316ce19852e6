"""Corruption rates, with three corruption seeds each: table "rate"."""

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from conservator.evaluation.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure
from conservator_studies.byte import NAMES, ByteConfig, prepare, restore_all
from conservator_studies.resources import Resources
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.statistics import Measurements
from conservator_studies.study import Study, Track, untracked


@dataclass(frozen=True)
class Config(ByteConfig):
    """Configuration of the study; ``windows`` is the number per rate and corruption seed."""

    windows: int = 64
    domains: tuple[str, ...] = ("prose", "code")
    rates: tuple[float, ...] = (0.1, 0.2, 0.3)
    seeds: int = 3


PRESETS = {"laptop": Config(), "paper": Config(windows=128)}
BASELINES = ("local_bayes", "hard_label", "best_single_marginal", "global", "equal")
TABLES = [
    TableSpec(
        "Accuracy by fraction of lost bytes, mean ± standard deviation over corruption seeds",
        [Column(name, NAMES[name], 3) for name in BASELINES],
        "tab:rate",
    ),
    TableSpec("Advantage of local evidence", [Column("over_equal", "over equal weights", 3)], "tab:rate"),
]
PAPER = {
    "r = 0.1": dict(zip(BASELINES, (0.586, 0.563, 0.553, 0.523, 0.485), strict=True)) | {"over_equal": 0.101},
    "r = 0.2": dict(zip(BASELINES, (0.533, 0.515, 0.505, 0.476, 0.442), strict=True)) | {"over_equal": 0.091},
    "r = 0.3": dict(zip(BASELINES, (0.479, 0.463, 0.456, 0.430, 0.401), strict=True)) | {"over_equal": 0.078},
}


def run(config: Config, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows at every rate, with different lost bytes for each corruption seed."""
    points = [(rate, number) for rate in config.rates for number in range(config.seeds)]
    measured = Measurements()
    for rate, number in track(points, "rate"):
        trial = prepare(replace(config, rate=rate), seed, resources, corruption=seed + number)
        restorations = restore_all(trial, BASELINES, untracked, "")
        accuracy = {name: restored.document_accuracy for name, restored in restorations.items()}
        measured.add(f"r = {rate:g}", accuracy | {"over_equal": accuracy["local_bayes"] - accuracy["equal"]})
    rows = measured.rows(PAPER)
    for rate, row in zip(config.rates, rows, strict=True):
        row |= {"rate": rate, "windows": config.windows}
    return Findings(rows, {"rate": draw(rows)})


def draw(rows: list[Row]) -> Figure:
    """Plot the accuracy as a function of the rate, one line per method; the paper's lines are dashed."""
    figure = new_figure(6.5, 3.8)
    axes = figure.subplots()
    rates = [row["rate"] for row in rows]
    colours = (BLUE, ORANGE, GREEN, PURPLE, GREY)
    for name, colour in zip(BASELINES, colours, strict=True):
        means = np.array([row[name] for row in rows])
        spread = np.array([row.get(f"{name}_sd", 0.0) for row in rows])
        axes.errorbar(rates, means, spread, fmt="o-", color=colour, ms=4, capsize=2, label=NAMES[name])
        paper = [row["paper"].get(name, np.nan) for row in rows]
        axes.plot(rates, paper, "x--", color=colour, ms=5, linewidth=1)
    axes.plot([], [], "x--", color="black", ms=5, linewidth=1, label="paper, same colours")
    axes.set(xlabel="fraction of lost bytes", ylabel="accuracy", xticks=rates)
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


STUDY = Study(presets=PRESETS, tables=TABLES, run=run)
