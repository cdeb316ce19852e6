"""Field error as a function of observations, expert separation and corruption rate: figure "phase"."""

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure

from conservator.channels import ReplacementChannel
from conservator.evaluation.figures import BLUE, GREY, new_figure
from conservator.field import log_pool
from conservator.reference import FactorisedEvidence, Solution, infer_field, sample_categorical
from conservator_studies.result import Column, Findings, Row, TableSpec
from conservator_studies.simulation import divergence, draw_experts, field_error, true_field
from conservator_studies.statistics import summarise
from conservator_studies.study import Study, Track


@dataclass(frozen=True)
class Config:
    """Configuration of the simulator, and the values of each axis; one axis varies, the others keep their default."""

    repeats: int = 10
    vocab_size: int = 12
    length: int = 48
    gap: float = 2.5
    rate: float = 0.4
    observations: int = 3000
    all_observations: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)
    gaps: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
    rates: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)


PRESETS = {"laptop": Config(), "paper": Config(repeats=20)}
TABLES = [
    TableSpec(
        "Field error along each axis, one axis varied at a time",
        [Column("mae", "field MAE", 4), Column("divergence", "measured KL", 2)],
    )
]


def run(config: Config, seed: int, track: Track, resources: None = None) -> Findings:
    """Recover the field from exact evidence along each axis, with new experts and observations in each repeat."""
    points = [
        *(("n", count) for count in config.all_observations),
        *(("gap", gap) for gap in config.gaps),
        *(("rate", rate) for rate in config.rates),
    ]
    rows: list[Row] = []
    for axis, value in track(points, "recoverability"):
        errors, divergences, converged = [], [], []
        for repeat in range(config.repeats):
            generator = torch.Generator().manual_seed(1000 * seed + repeat)
            solution, error, separation = run_once(config, axis, value, generator)
            errors.append(error)
            divergences.append(separation)
            converged.append(solution.converged)
        row: Row = {"method": f"{axis}={value:g}", "axis": axis, "value": value, "count": config.repeats}
        row["converged"] = sum(converged) / len(converged)
        rows.append(row | summarise("mae", errors) | summarise("divergence", divergences) | {"paper": {}})
    return Findings(rows, {"recoverability": draw(rows)})


def run_once(config: Config, axis: str, value: float, generator: torch.Generator) -> tuple[Solution, float, float]:
    """Infer the field with ``axis`` at ``value`` and the other axes at their defaults.

    Returns:
        The solution, its field error, and the measured KL between the experts in nats.
    """
    gap = value if axis == "gap" else config.gap
    rate = value if axis == "rate" else config.rate
    count = int(value) if axis == "n" else config.observations
    experts = draw_experts(config.vocab_size, config.length, gap, generator)
    table = torch.stack([expert.log_marginals for expert in experts])
    truth = true_field(config.length)
    clean = sample_categorical(log_pool(table, truth), count, generator)
    observed = ReplacementChannel(config.vocab_size, rate).corrupt(clean, generator)
    solution = infer_field(FactorisedEvidence(table, observed))
    return solution, field_error(solution.field, truth), divergence(*experts)


def draw(rows: list[Row]) -> Figure:
    """Plot figure "phase": the mean error along each axis, with the 95 % interval of the mean."""
    figure = new_figure(10, 3.4)
    panels = figure.subplots(1, 3, sharey=True)
    axes = (
        ("n", "value", "corrupted observations $N$", "log"),
        ("gap", "divergence", "measured KL between the experts (nats)", "linear"),
        ("rate", "value", "corruption rate $r$", "linear"),
    )
    for panel, (axis, key, label, scale) in zip(panels, axes, strict=True):
        axis_rows = [row for row in rows if row["axis"] == axis]
        values = [row[key] for row in axis_rows]
        means = np.array([row["mae"] for row in axis_rows])
        low = np.array([row.get("mae_low", row["mae"]) for row in axis_rows])
        high = np.array([row.get("mae_high", row["mae"]) for row in axis_rows])
        panel.errorbar(values, means, [means - low.clip(1e-4), high - means], fmt="o-", color=BLUE, capsize=2, ms=4)
        panel.axhline(1 / 3, color=GREY, linestyle="--", linewidth=1)
        panel.set(xlabel=label, xscale=scale, yscale="log", ylim=(2e-3, 0.6))
        panel.grid(axis="y", color="0.92")
    panels[0].set_ylabel("field mean absolute error")
    panels[2].text(0.0, 0.345, "equal weights", color=GREY, fontsize=9, va="bottom")
    return figure


STUDY = Study(presets=PRESETS, needs_resources=False, unit="repeats", tables=TABLES, run=run)
