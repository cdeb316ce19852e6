"""Definition of a study: configurations, computation, and tables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from conservator.errors import ConservatorError
from conservator.evaluation.tables import Lines
from conservator_studies import STUDIES
from conservator_studies.resources import Resources
from conservator_studies.result import Findings, Row, TableSpec, grid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Config = TypeVar("Config", bound="DataclassInstance")


class Track(Protocol):
    """Shows the progress of a long loop."""

    def __call__(self, items: Iterable[Item], title: str, /) -> Iterable[Item]:
        """Iterate over ``items`` and show a progress bar with ``title``."""


def untracked(items: Iterable[Item], title: str) -> Iterable[Item]:
    """Iterate without a progress bar, for an inner loop."""
    return items


@dataclass(frozen=True, kw_only=True)
class Study(ABC, Generic[Config]):
    """Reproduction of a table or a figure of the paper.

    Attributes:
        presets: configurations by name, ``laptop`` and ``paper``; frozen dataclasses.
        unit: configuration field with the number of repeats, windows or documents; a limit applies to it.
        tables: layout of the tables.
        labels: method -> name of its row in tables; by default the method.
        conclude: makes the conclusion from the rows; "" for no conclusion.
        needs_resources: whether the study needs texts and trained experts.
        domain: required domain in addition to prose, code and config.
        split: split of ``domain``.
        lacks: returns a message about missing inputs and how to provide them, from a configuration and resources; ""
            if no input is missing.
    """

    needs_resources: ClassVar[bool] = False

    presets: Mapping[str, Config]
    tables: Sequence[TableSpec]
    unit: str = "windows"
    labels: Mapping[str, str] = field(default_factory=dict)
    conclude: Callable[[list[Row]], str] = lambda rows: ""
    domain: str | None = None
    split: str = "eval"
    lacks: Callable[[Config, Resources | None], str] = lambda config, resources: ""

    @abstractmethod
    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run the study."""

    def config(self, preset: str, limit: int | None = None) -> Config:
        """Return the configuration of a preset, with at most ``limit`` repeats, windows or documents."""
        config = self.presets[preset]
        return config if limit is None else replace(config, **{self.unit: min(limit, getattr(config, self.unit))})

    def grids(self, rows: list[Row]) -> list[tuple[TableSpec, Lines]]:
        """Lay out the tables that have rows."""
        laid_out = [(spec, grid(rows, spec, self.labels)) for spec in self.tables]
        return [(spec, lines) for spec, lines in laid_out if len(lines) > 1]


@dataclass(frozen=True, kw_only=True)
class SimulatedStudy(Study[Config]):
    """A study with simulated experts and sequences.

    Attributes:
        run: computes the findings from a configuration, a seed and a progress bar.
    """

    run: Callable[[Config, int, Track], Findings]

    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run the study; ``resources`` is ignored."""
        return self.run(config, seed, track)


@dataclass(frozen=True, kw_only=True)
class TextStudy(Study[Config]):
    """A study with texts and trained experts.

    Attributes:
        run: computes the findings from a configuration, a seed, a progress bar and resources.
    """

    needs_resources: ClassVar[bool] = True

    run: Callable[[Config, int, Track, Resources], Findings]

    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run the study with ``resources``."""
        if resources is None:
            raise ConservatorError("this study needs texts and experts, got no resources")
        return self.run(config, seed, track, resources)


def load_study(name: str) -> Study[Any]:
    """Import the study ``name``."""
    study: Study[Any] = import_module(STUDIES[name].module).STUDY
    return study
