"""The results of a study: a JSON record with how they were obtained, and tables beside the paper's figures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from matplotlib.figure import Figure

from conservator.evaluation.provenance import commit, versions
from conservator.evaluation.tables import Lines

Metrics = dict[str, float]  # metric -> its value

# A row of results. These keys have a meaning of their own:
#   method (str)      the name of the row; ``labels`` of the study maps it to its name in tables
#   paper (Metrics)   the paper's figures for the same metrics; empty where it has none
#   count (int)       over how many repeats or documents the row is a mean
# All other keys are metrics. METRIC may be followed by METRIC_sd, its standard deviation, or by METRIC_low and
# METRIC_high, its 95 % interval. A study may add texts and lists that its conclusion needs.
Row = dict[str, Any]


class Record(TypedDict):
    """A result file, as JSON has it; ``Result`` says what the fields mean."""

    name: str
    preset: str
    commit: str | None
    seed: int
    versions: dict[str, str | None]
    config: dict[str, Any]
    experts: dict[str, str]
    corpora: str | None
    seconds: float
    figures: Sequence[str]
    rows: list[Row]


@dataclass(frozen=True)
class Column:
    """A metric of the table: its key in the rows, its heading, its number of decimals."""

    metric: str
    heading: str
    decimals: int


@dataclass(frozen=True)
class TableSpec:
    """A table: its title and its columns. It shows the rows that have one of its metrics.

    Attributes:
        title: what it shows.
        columns: its metrics.
        source: the label of the paper's table (or the section) that its figures stand beside.
    """

    title: str
    columns: list[Column]
    source: str = ""


@dataclass(frozen=True)
class Findings:
    """What a study returns.

    Attributes:
        rows: one for each method.
        figures: name -> figure.
    """

    rows: list[Row]
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Result:
    """Findings, and everything needed to obtain them again.

    Attributes:
        name: the study.
        preset: its sizes, by name.
        seed: the seed of all randomness.
        config: its sizes.
        seconds: how long it took.
        rows: what it found.
        figures: the names of its figures.
        experts: name -> fingerprint of the experts that it may use; empty if it makes its own.
        corpora: the fingerprint of the texts; None if it uses none.
    """

    name: str
    preset: str
    seed: int
    config: dict[str, Any]
    seconds: float
    rows: list[Row]
    figures: tuple[str, ...] = ()
    experts: dict[str, str] = field(default_factory=dict)
    corpora: str | None = None

    def to_json(self) -> str:
        """Return the result file."""
        record: Record = {
            "name": self.name,
            "preset": self.preset,
            "commit": commit(),
            "seed": self.seed,
            "versions": versions(),
            "config": self.config,
            "experts": self.experts,
            "corpora": self.corpora,
            "seconds": round(self.seconds, 3),
            "figures": self.figures,
            "rows": self.rows,
        }
        return json.dumps(record, indent=2, allow_nan=False) + "\n"


def cell(row: Row, column: Column) -> str:
    """Write a metric with its standard deviation or its interval, or a dot where it was not measured."""
    if column.metric not in row:
        return "·"

    def shown(suffix: str = "") -> str:
        return f"{row[column.metric + suffix]:.{column.decimals}f}"

    if f"{column.metric}_sd" in row:
        return f"{shown()} ± {shown('_sd')}"
    if f"{column.metric}_low" in row:
        return f"{shown()} [{shown('_low')}, {shown('_high')}]"
    return shown()


def grid(rows: list[Row], spec: TableSpec, labels: Mapping[str, str]) -> Lines:
    """Lay a table out as text: a heading line, then a line for each method, the paper's figures beside ours."""
    shown = [row for row in rows if any(column.metric in row for column in spec.columns)]
    names = [str(row["method"]) for row in shown]
    heading, body = ["method"], [[labels.get(name, name)] for name in names]
    for column in spec.columns:
        heading.append(column.heading)
        for line, row in zip(body, shown, strict=True):
            line.append(cell(row, column))
        if any(column.metric in row["paper"] for row in shown):
            heading.append("paper")
            for line, row in zip(body, shown, strict=True):
                line.append(f"{row['paper'][column.metric]:.3f}" if column.metric in row["paper"] else "·")
    return [heading, *body]
