"""What a study found, as a record that says how it was made: JSON, a table, Markdown."""

import json
import platform
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure
from rich.table import Table

Item = TypeVar("Item")
Track = Callable[[Iterable[Item], str], Iterable[Item]]  # wraps a long loop in a progress bar with that title
Row = dict[str, Any]


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
        rows: one a method: ``method``, metrics (with ``_sd``, ``_low``, ``_high``), ``count`` and ``paper``.
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
        seed: what everything random follows from.
        config: its sizes.
        seconds: how long it took.
        rows: what it found.
        figures: the names of its figures.
        experts: name -> fingerprint of the experts that it may use; empty where it makes its own.
        corpora: the fingerprint of the texts; None where there are none.
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
        record = {
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


def grid(rows: list[Row], spec: TableSpec, labels: dict[str, str]) -> list[list[str]]:
    """Lay a table out as text: a heading line, then a line a method, the paper's figures beside ours."""
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


def as_table(title: str, lines: list[list[str]]) -> Table:
    """Make a terminal table of a ``grid``."""
    heading, *body = lines
    table = Table(title=title, title_justify="left")
    for number, text in enumerate(heading):
        table.add_column(text, justify="right" if number else "left", style="dim" if text == "paper" else "")
    for line in body:
        table.add_row(*line)
    return table


def as_markdown(title: str, lines: list[list[str]]) -> str:
    """Make a Markdown table of a ``grid``."""
    heading, *body = lines
    rule = [":--", *["--:"] * (len(heading) - 1)]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in [heading, rule, *body])


def versions() -> dict[str, str | None]:
    """The versions that the figures depend on; None for what is not installed (numba may be absent)."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("conservator", "matplotlib", "numba", "numpy", "scikit-learn", "scipy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """The commit of the checkout that this code runs from, or None outside of one.

    It ends in ``-dirty`` where the code is not that of the commit; files beside the package do not count.
    """
    here = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # a checkout around an installed copy is another project's
        changed = git("status", "--porcelain", "--", str(here.parent.parent))
        return git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
