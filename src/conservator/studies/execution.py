"""Run a study: its sizes, its record, its tables, and whether a record is still good."""

import json
import time
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from conservator.figures import render
from conservator.files import write_atomically
from conservator.studies import STUDIES
from conservator.studies.materials import Materials
from conservator.studies.result import Result, Track, as_markdown, commit, grid

Lines = list[list[str]]


@dataclass(frozen=True)
class Request:
    """Which study to run, how large, from which seed, and with what.

    Attributes:
        name: the study.
        preset: its sizes, by name.
        seed: what everything random follows from.
        limit: how many repeats or windows at most.
        materials: texts and experts; None for a study that needs none.
    """

    name: str
    preset: str
    seed: int
    limit: int | None = None
    materials: Materials | None = None

    @property
    def study(self) -> ModuleType:
        """The module."""
        return import_module(STUDIES[self.name].module)

    @property
    def config(self) -> Any:
        """The sizes, within the limit."""
        config, unit = self.study.PRESETS[self.preset], self.study.UNIT
        return config if self.limit is None else replace(config, **{unit: min(self.limit, getattr(config, unit))})

    @property
    def inputs(self) -> dict[str, Any]:
        """What the findings depend on, as the record has it."""
        return {
            "name": self.name,
            "preset": self.preset,
            "seed": self.seed,
            "commit": commit(),
            "config": json.loads(json.dumps(asdict(self.config))),
            "experts": self.materials.fingerprints if self.materials else {},
            "corpora": self.materials.fingerprint if self.materials else None,
        }


def is_current(path: Path, request: Request) -> bool:
    """Whether ``path`` holds the result of this request, made by this very code."""
    inputs = request.inputs
    if inputs["commit"] is None or inputs["commit"].endswith("-dirty"):
        return False
    try:
        record = json.loads(path.read_text())
        made = [path.with_suffix(".md"), *(path.parent / f"{figure}.png" for figure in record["figures"])]
        return all(record[key] == value for key, value in inputs.items()) and all(one.exists() for one in made)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def execute(request: Request, out: Path, track: Track[Any], *, pdf: bool = False) -> tuple[Result, list[Path]]:
    """Run a study and write its record, its tables and its figures.

    Returns:
        The result, and the files that were written.
    """
    study, config, given = request.study, request.config, request.materials
    start = time.perf_counter()
    findings = study.run(config, request.seed, track, *((given,) if given else ()))
    seconds = time.perf_counter() - start
    result = Result(
        request.name,
        request.preset,
        request.seed,
        asdict(config),
        seconds,
        findings.rows,
        tuple(findings.figures),
        given.fingerprints if given else {},
        given.fingerprint if given else None,
    )
    markdown = "\n".join(as_markdown(*table) for table in tables(request.name, findings.rows))
    record = out / f"{request.name}.json"
    written = {out / f"{request.name}.md": markdown.encode()}
    for title, figure in findings.figures.items():
        for form in ("png", "pdf") if pdf else ("png",):
            written[out / f"{title}.{form}"] = render(figure, form)
    for path, data in written.items():
        write_atomically(path, data)
    write_atomically(record, result.to_json().encode())  # last: where it is, all is
    return result, [record, *written]


def tables(name: str, rows: list[dict[str, Any]]) -> list[tuple[str, Lines]]:
    """The tables of a study, each with its title."""
    study = import_module(STUDIES[name].module)
    laid_out = [(spec.title, grid(rows, spec, study.LABELS)) for spec in study.TABLES]
    return [(title, lines) for title, lines in laid_out if len(lines) > 1]
