"""What a study is: its sizes, how it is run, and how its findings are shown."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        """Go through ``items`` under a progress bar with that title."""


def untracked(items: Iterable[Item], title: str) -> Iterable[Item]:
    """Show nothing: for a loop inside a loop whose progress is shown."""
    return items


def no_conclusion(rows: list[Row]) -> str:
    """No conclusion."""
    return ""


def nothing(config: Any, resources: Resources | None) -> str:
    """Nothing is missing."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Study(ABC, Generic[Config]):
    """The reproduction of a table or a figure of the paper.

    Attributes:
        presets: its sizes by name, ``laptop`` and ``paper``: frozen dataclasses.
        unit: the name of the size that counts repeats, windows or documents; a limit applies to it.
        tables: how its rows are shown.
        labels: method -> the name of its row in tables; a row without a label is named by its method.
        conclude: summarises the rows in words; "" for no conclusion.
        needs_resources: whether it works with texts and trained experts.
        domain: a domain of texts that it needs besides prose, code and config.
        split: the split of that domain.
        lacks: says of sizes and resources what is missing for them, and how to get it; "" for nothing.
    """

    needs_resources: ClassVar[bool] = False

    presets: Mapping[str, Config]
    unit: str
    tables: Sequence[TableSpec]
    labels: Mapping[str, str]
    conclude: Callable[[list[Row]], str] = no_conclusion
    domain: str | None = None
    split: str = "eval"
    lacks: Callable[[Config, Resources | None], str] = nothing

    @abstractmethod
    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run it."""

    def config(self, preset: str, limit: int | None = None) -> Config:
        """The sizes of a preset, with at most ``limit`` repeats, windows or documents."""
        config = self.presets[preset]
        return config if limit is None else replace(config, **{self.unit: min(limit, getattr(config, self.unit))})

    def grids(self, rows: list[Row]) -> list[tuple[TableSpec, Lines]]:
        """The tables that have rows, laid out as text."""
        laid_out = [(spec, grid(rows, spec, self.labels)) for spec in self.tables]
        return [(spec, lines) for spec, lines in laid_out if len(lines) > 1]


@dataclass(frozen=True, kw_only=True)
class SimulatedStudy(Study[Config]):
    """A study that draws its experts and its sequences itself.

    Attributes:
        run: from sizes, a seed and a progress bar to findings.
    """

    run: Callable[[Config, int, Track], Findings]

    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run it; the resources are not used."""
        return self.run(config, seed, track)


@dataclass(frozen=True, kw_only=True)
class TextStudy(Study[Config]):
    """A study of texts and trained experts.

    Attributes:
        run: from sizes, a seed, a progress bar, texts and experts to findings.
    """

    needs_resources: ClassVar[bool] = True

    run: Callable[[Config, int, Track, Resources], Findings]

    def findings(self, config: Config, seed: int, track: Track, resources: Resources | None) -> Findings:
        """Run it with the resources."""
        if resources is None:
            raise ConservatorError("this study works with texts and experts, and was given none")
        return self.run(config, seed, track, resources)


def load_study(name: str) -> Study[Any]:
    """Import the study of that name."""
    study: Study[Any] = import_module(STUDIES[name].module).STUDY
    return study
