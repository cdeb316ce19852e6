"""Recovered fields of three windows that are chosen by rules: figure "flagship"."""

from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from conservator.evaluation.figures import BLUE, GREEN, GREY, ORANGE, new_figure
from conservator_studies.attribution import segments
from conservator_studies.byte import ByteConfig, Trial, prepare
from conservator_studies.metrics import per_group
from conservator_studies.resources import Resources
from conservator_studies.restoration import Restored, restore_windows
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.study import TextStudy, Track

PRESETS = {"laptop": ByteConfig(), "paper": ByteConfig()}
TABLES = [
    TableSpec(
        "The windows of the figure",
        [
            Column("window", "window", 0),
            Column("accuracy", "accuracy", 3),
            Column("field_accuracy", "field accuracy", 3),
            Column("median_accuracy", "median accuracy", 3),
        ],
        "fig:flagship",
    )
]
LABELS = {
    "two": "Median of two segments",
    "three": "Median of three segments",
    "worst": "Lowest of the harder pair",
}
COLOURS = (BLUE, ORANGE, GREEN)


@dataclass(frozen=True)
class Chosen:
    """A window, and the median accuracy of those that it was chosen from."""

    window: int
    median: float


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Infer all windows, choose three by the rules, and draw them."""
    trial = prepare(config, seed, resources)
    inferred = trial.setting.bayes
    found = restore_windows(trial.setting.team, trial.mixed, trial.setting.observation, inferred)
    chosen = choose(trial, found, inferred.regions.argmax(-1))
    right = (inferred.regions.argmax(-1) == trial.mixed.labels).double().mean(-1)
    accuracy = per_group(found.right, found.windows)
    rows: list[Row] = [
        {
            "method": rule,
            "window": one.window,
            "accuracy": float(accuracy[one.window]),
            "field_accuracy": float(right[one.window]),
            "median_accuracy": one.median,
            "paper": {},
        }
        for rule, one in chosen.items()
    ]
    return Findings(rows, {"flagship": draw(trial, inferred.field, inferred.regions, rows)})


def choose(trial: Trial, found: Restored, regions: Tensor) -> dict[str, Chosen]:
    """The rules, fixed before any window was looked at.

    ``two`` and ``three``: of the windows with two or three segments, the one of median restoration accuracy (the lower
    of two medians, the first of a tie). ``worst``: of the windows that mix two domains, take the pair of domains with
    the lowest mean accuracy, and of its windows the one with the lowest field accuracy (the first of a tie).
    """
    accuracy = per_group(found.right, found.windows)  # every window has lost bytes
    labels = trial.mixed.labels
    counts = torch.tensor([len(segments(row)) for row in labels])
    chosen = {}
    for rule, count in (("two", 2), ("three", 3)):
        among = (counts == count).nonzero()[:, 0]
        if len(among):
            order = among[accuracy[among].argsort(stable=True)]
            window = int(order[(len(order) - 1) // 2])
            chosen[rule] = Chosen(window, float(accuracy[among].median()))
    pairs: dict[tuple[int, ...], list[int]] = {}
    for window, row in enumerate(labels):
        mixed = tuple(row.unique().tolist())
        if len(mixed) == 2:
            pairs.setdefault(mixed, []).append(window)
    if pairs:
        hardest = min(pairs.values(), key=lambda each: float(accuracy[each].mean()))
        field = (regions == labels).double().mean(-1)
        chosen["worst"] = Chosen(
            min(hardest, key=lambda window: float(field[window])), float(accuracy[hardest].median())
        )
    return chosen


def draw(trial: Trial, field: Tensor, regions: Tensor, rows: list[Row]) -> Figure:
    """For each window a ribbon of the true regions, the weights as curves, and ticks where bytes were lost."""
    figure = new_figure(9, 1.9 * len(rows) + 0.7)
    panels = figure.subplots(len(rows), 1, squeeze=False, sharex=True)[:, 0]
    names = trial.mixed.names
    for panel, row in zip(panels, rows, strict=True):
        window = row["window"]
        paint(panel, trial.mixed.labels[window], field[window], regions[window])
        lost = trial.setting.observation.lost[window].nonzero()[:, 0]
        panel.plot(lost, torch.full(lost.shape, -0.06), "|", color=GREY, ms=4)
        title = f"{LABELS[row['method']]}: restored {row['accuracy']:.0%}, attributed {row['field_accuracy']:.0%}"
        panel.set_title(title, fontsize=9, loc="left")
    for name, colour in zip(names, COLOURS, strict=False):
        panels[0].plot([], [], color=colour, linewidth=2, label=name)
    panels[0].plot([], [], color="black", linewidth=1, linestyle=":", label="region")
    panels[0].plot([], [], "|", color=GREY, label="lost byte")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=5, frameon=False, fontsize=9)
    panels[-1].set_xlabel("position (byte)")
    return figure


def paint(panel: Axes, labels: Tensor, field: Tensor, regions: Tensor) -> None:
    """One window: the ribbon above, the curves below."""
    for start, stop, region in segments(labels):
        panel.axvspan(start - 0.5, stop - 0.5, ymin=0.9, color=COLOURS[region], linewidth=0)
        panel.axvline(start - 0.5, color="0.85", linewidth=1, zorder=0)
    for number, colour in zip(range(field.shape[1]), COLOURS, strict=False):
        panel.plot(field[:, number], color=colour, linewidth=1.6)
        panel.plot(regions[:, number], color=colour, linewidth=1, linestyle=":")
    panel.set(ylim=(-0.12, 1.2), xlim=(-0.5, len(labels) - 0.5), yticks=[0, 0.5, 1], ylabel="weight")
    panel.spines[["top", "right"]].set_visible(False)


STUDY = TextStudy(presets=PRESETS, unit="windows", tables=TABLES, labels=LABELS, run=run)
