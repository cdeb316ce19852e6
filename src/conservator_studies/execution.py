"""Run a study and write its record, tables and figures; check whether a record is still current."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conservator.evaluation.figures import render
from conservator.evaluation.provenance import commit
from conservator.evaluation.tables import Lines, as_markdown
from conservator.system.files import make_folder, write_atomically
from conservator_studies.resources import Resources
from conservator_studies.result import Result, Row
from conservator_studies.study import Study, Track, load_study


@dataclass(frozen=True)
class Request:
    """Which study to run, with which sizes, seed, texts and experts.

    Attributes:
        name: the study.
        preset: its sizes, by name.
        seed: the seed of all randomness.
        limit: how many repeats or windows at most.
        resources: texts and experts; None for a study that needs none.
    """

    name: str
    preset: str
    seed: int
    limit: int | None = None
    resources: Resources | None = None

    @property
    def study(self) -> Study[Any]:
        """The study itself."""
        return load_study(self.name)

    @property
    def config(self) -> Any:
        """The sizes, within the limit."""
        return self.study.config(self.preset, self.limit)

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that the findings depend on, with the keys of the record."""
        return {
            "name": self.name,
            "preset": self.preset,
            "seed": self.seed,
            "commit": commit(),
            "config": json.loads(json.dumps(asdict(self.config))),
            "experts": self.resources.fingerprints if self.resources else {},
            "corpora": self.resources.fingerprint if self.resources else None,
        }


def is_current(path: Path, request: Request) -> bool:
    """Whether ``path`` holds the result of this request, made by the same commit without changes."""
    inputs = request.inputs
    if inputs["commit"] is None or inputs["commit"].endswith("-dirty"):
        return False
    try:
        record = json.loads(path.read_text())
        made = [path.with_suffix(".md"), *(path.parent / f"{figure}.png" for figure in record["figures"])]
        return all(record[key] == value for key, value in inputs.items()) and all(one.exists() for one in made)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def execute(request: Request, out: Path, track: Track, *, pdf: bool = False) -> tuple[Result, list[Path]]:
    """Run a study and write its record, its tables and its figures.

    Returns:
        The result, and the files that were written.
    """
    config, resources = request.config, request.resources
    start = time.perf_counter()
    findings = request.study.findings(config, request.seed, track, resources)
    seconds = time.perf_counter() - start
    result = Result(
        request.name,
        request.preset,
        request.seed,
        asdict(config),
        seconds,
        findings.rows,
        tuple(findings.figures),
        resources.fingerprints if resources else {},
        resources.fingerprint if resources else None,
    )
    markdown = "\n".join(as_markdown(*table) for table in tables(request.name, findings.rows))
    record = out / f"{request.name}.json"
    written = {out / f"{request.name}.md": markdown.encode()}
    for title, figure in findings.figures.items():
        for form in ("png", "pdf") if pdf else ("png",):
            written[out / f"{title}.{form}"] = render(figure, form)
    make_folder(out)
    for path, data in written.items():
        write_atomically(path, data)
    write_atomically(record, result.to_json().encode())  # last, so that where there is a record, all files are there
    return result, [record, *written]


def tables(name: str, rows: list[Row]) -> list[tuple[str, Lines]]:
    """The tables of a study, each with its title."""
    return [(spec.title, lines) for spec, lines in load_study(name).grids(rows)]
