"""Definition of a study: configurations, computation, and tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, TypeVar

from conservator.evaluation.tables import Lines
from conservator_studies import MODULES
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row, TableSpec, grid

Item = TypeVar("Item")


class Track(Protocol):
    """Shows the progress of a long loop."""

    def __call__(self, items: Iterable[Item], title: str, /) -> Iterable[Item]:
        """Iterate over ``items`` and show a progress bar with ``title``."""


def untracked(items: Iterable[Item], title: str) -> Iterable[Item]:
    """Iterate without a progress bar, for an inner loop."""
    return items


@dataclass(frozen=True, kw_only=True)
class Study:
    """Reproduction of a table or a figure of the paper.

    Attributes:
        presets: configurations by name, ``laptop`` and ``paper``; frozen dataclasses.
        run: computes the findings from a configuration, a seed, a progress bar and resources.
        unit: configuration field with the number of repeats, windows or documents; a limit applies to it.
        tables: layout of the tables.
        labels: method -> name of its row in tables; by default the method.
        conclude: makes the conclusion from the rows; "" for no conclusion.
        needs_resources: whether the study needs texts and trained experts; otherwise ``run`` gets None.
        domain: required domain in addition to prose, code and config.
        split: split of ``domain``.
        lacks: returns a message about missing inputs and how to provide them, from a configuration and resources; ""
            if no input is missing.
    """

    presets: Mapping[str, Any]
    run: Callable[[Any, int, Track, Any], Findings]
    tables: Sequence[TableSpec]
    unit: str = "windows"
    labels: Mapping[str, str] = field(default_factory=dict)
    conclude: Callable[[list[Row]], str] = lambda rows: ""
    needs_resources: bool = True
    domain: str | None = None
    split: str = "eval"
    lacks: Callable[[Any, Resources | None], str] = lambda config, resources: ""

    def config(self, preset: str, limit: int | None = None) -> Any:
        """Return the configuration of a preset, with at most ``limit`` repeats, windows or documents."""
        config = self.presets[preset]
        return config if limit is None else replace(config, **{self.unit: min(limit, getattr(config, self.unit))})

    def grids(self, rows: list[Row]) -> list[tuple[TableSpec, Lines]]:
        """Lay out the tables that have rows."""
        laid_out = [(spec, grid(rows, spec, self.labels)) for spec in self.tables]
        return [(spec, lines) for spec, lines in laid_out if len(lines) > 1]


def load_study(name: str) -> Study:
    """Import the study ``name``."""
    module = MODULES.get(name, name.replace("-", "_"))
    study: Study = import_module(f"conservator_studies.{module}").STUDY
    return study
