"""Recovered fields of three windows that fixed rules select: figure "flagship"."""

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
from conservator_studies.study import Study, Track

PRESETS = {"laptop": ByteConfig(), "paper": ByteConfig()}
TABLES = [
    TableSpec(
        "Windows of the figure",
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
    "two": "Two segments, median accuracy",
    "three": "Three segments, median accuracy",
    "worst": "Hardest pair of domains, lowest field accuracy",
}
COLOURS = (BLUE, ORANGE, GREEN)


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Infer the fields of all windows, select three windows by the rules, and plot them."""
    trial = prepare(config, seed, resources)
    inferred = trial.setting.bayes
    restored = restore_windows(trial.setting.team, trial.mixed, trial.setting.observation, inferred)
    rows = select_windows(trial, restored, inferred.regions.argmax(-1))
    return Findings(rows, {"flagship": draw(trial, inferred.field, inferred.regions, rows)})


def select_windows(trial: Trial, restored: Restored, regions: Tensor) -> list[Row]:
    """Select windows by rules that were fixed before any window was inspected, and make one row per rule.

    ``two`` and ``three``: the window of median restoration accuracy among the windows with two or three segments (the
    lower of two medians, the first of a tie). ``worst``: among the windows that mix two domains, take the pair of
    domains with the lowest mean accuracy, and its window with the lowest field accuracy (the first of a tie).
    """
    accuracy = per_group(restored.correct, restored.windows)  # every window has lost bytes
    labels = trial.mixed.labels
    field_accuracy = (regions == labels).double().mean(-1)
    counts = torch.tensor([len(segments(row)) for row in labels])
    rows: list[Row] = []

    def select(rule: str, window: int, candidates: Tensor) -> None:
        row: Row = {"method": rule, "window": window, "accuracy": float(accuracy[window])}
        row["field_accuracy"] = float(field_accuracy[window])
        row["median_accuracy"] = float(accuracy[candidates].median())
        rows.append(row | {"paper": {}})

    for rule, count in (("two", 2), ("three", 3)):
        candidates = (counts == count).nonzero()[:, 0]
        if len(candidates):
            order = candidates[accuracy[candidates].argsort(stable=True)]
            select(rule, int(order[(len(order) - 1) // 2]), candidates)
    pairs: dict[tuple[int, ...], list[int]] = {}
    for window, row in enumerate(labels):
        domains = tuple(row.unique().tolist())
        if len(domains) == 2:
            pairs.setdefault(domains, []).append(window)
    if pairs:
        hardest = min(pairs.values(), key=lambda windows: float(accuracy[windows].mean()))
        worst = min(hardest, key=lambda window: float(field_accuracy[window]))
        select("worst", worst, torch.tensor(hardest))
    return rows


def draw(trial: Trial, field: Tensor, regions: Tensor, rows: list[Row]) -> Figure:
    """Plot for each window a ribbon of the true regions, the weights as curves, and ticks at lost bytes."""
    figure = new_figure(9, 1.9 * len(rows) + 0.7)
    panels = figure.subplots(len(rows), 1, squeeze=False, sharex=True)[:, 0]
    names = trial.mixed.names
    for panel, row in zip(panels, rows, strict=True):
        window = row["window"]
        plot_window(panel, trial.mixed.labels[window], field[window], regions[window])
        lost = trial.setting.observation.lost[window].nonzero()[:, 0]
        panel.plot(lost, torch.full(lost.shape, -0.06), "|", color=GREY, ms=4)
        title = f"{LABELS[row['method']]}: accuracy {row['accuracy']:.0%}, field accuracy {row['field_accuracy']:.0%}"
        panel.set_title(title, fontsize=9, loc="left")
    for name, colour in zip(names, COLOURS, strict=False):
        panels[0].plot([], [], color=colour, linewidth=2, label=name)
    panels[0].plot([], [], color="black", linewidth=1, linestyle=":", label="region")
    panels[0].plot([], [], "|", color=GREY, label="lost byte")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=5, frameon=False, fontsize=9)
    panels[-1].set_xlabel("position (byte)")
    return figure


def plot_window(panel: Axes, labels: Tensor, field: Tensor, regions: Tensor) -> None:
    """Plot a window: the ribbon above the curves."""
    for start, stop, region in segments(labels):
        panel.axvspan(start - 0.5, stop - 0.5, ymin=0.9, color=COLOURS[region], linewidth=0)
        panel.axvline(start - 0.5, color="0.85", linewidth=1, zorder=0)
    for number, colour in zip(range(field.shape[1]), COLOURS, strict=False):
        panel.plot(field[:, number], color=colour, linewidth=1.6)
        panel.plot(regions[:, number], color=colour, linewidth=1, linestyle=":")
    panel.set(ylim=(-0.12, 1.2), xlim=(-0.5, len(labels) - 0.5), yticks=[0, 0.5, 1], ylabel="weight")


STUDY = Study(presets=PRESETS, tables=TABLES, labels=LABELS, run=run)
