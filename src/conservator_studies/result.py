"""Results of a study: a JSON record with provenance, and tables with the paper's values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from matplotlib.figure import Figure

from conservator.evaluation.tables import Lines

Metrics = dict[str, float]  # metric -> value

# A row of results. Reserved keys:
#   method (str)      name of the row; ``labels`` of the study maps it to its name in tables
#   paper (Metrics)   values of the paper for the same metrics; empty if the paper has none
#   count (int)       number of repeats or documents that the row averages
# All other keys are metrics. METRIC_sd is the standard deviation of METRIC; METRIC_low and METRIC_high are its 95 %
# interval. A study may add strings and lists for its conclusion.
Row = dict[str, Any]


class Record(TypedDict):
    """JSON form of a result file: the findings of a study, with all inputs needed to reproduce them.

    Attributes:
        name: name of the study.
        preset: name of the configuration.
        commit: commit of the code; None outside of a checkout.
        seed: random seed.
        config: configuration.
        experts: name -> fingerprint of the available experts; empty if the study simulates its experts.
        corpora: fingerprint of the texts; None if the study uses no texts.
        versions: versions of Python and of packages.
        seconds: wall time.
        figures: names of the figures.
        rows: rows of the findings.
    """

    name: str
    preset: str
    commit: str | None
    seed: int
    config: dict[str, Any]
    experts: dict[str, str]
    corpora: str | None
    versions: dict[str, str | None]
    seconds: float
    figures: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Column:
    """A column of a table: metric key in the rows, heading, number of decimals."""

    metric: str
    heading: str
    decimals: int


@dataclass(frozen=True)
class TableSpec:
    """Layout of a table. The table has the rows with at least one of its metrics.

    Attributes:
        title: title of the table.
        columns: metrics of the table.
        source: label of the paper's table or section with the same metrics.
    """

    title: str
    columns: list[Column]
    source: str = ""


@dataclass(frozen=True)
class Findings:
    """Rows and figures of a study.

    Attributes:
        rows: one row per method.
        figures: name -> figure.
    """

    rows: list[Row]
    figures: dict[str, Figure]


def to_json(record: Mapping[str, Any]) -> str:
    """Return the content of a result file."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def cell(row: Row, column: Column) -> str:
    """Format a metric with its standard deviation or its interval; a dot if the row does not have the metric."""
    if column.metric not in row:
        return "·"

    def formatted(suffix: str = "") -> str:
        return f"{row[column.metric + suffix]:.{column.decimals}f}"

    if f"{column.metric}_sd" in row:
        return f"{formatted()} ± {formatted('_sd')}"
    if f"{column.metric}_low" in row:
        return f"{formatted()} [{formatted('_low')}, {formatted('_high')}]"
    return formatted()


def grid(rows: list[Row], spec: TableSpec, labels: Mapping[str, str]) -> Lines:
    """Lay out a table: a heading, then one line per method, with the paper's values next to ours."""
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
