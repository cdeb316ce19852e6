"""Run a study and write its record, tables and figures; check whether a record is current."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from conservator.evaluation.figures import render
from conservator.evaluation.provenance import commit, versions
from conservator.evaluation.tables import Lines, as_markdown
from conservator.system.files import make_folder, write_atomically
from conservator_studies.resources import Resources
from conservator_studies.result import Record, Row, to_json
from conservator_studies.study import Study, Track, load_study


@dataclass(frozen=True)
class Request:
    """A study with its preset, seed, texts and experts.

    Attributes:
        name: name of the study.
        preset: name of its configuration.
        seed: random seed.
        limit: maximum number of repeats, windows or documents.
        resources: texts and experts; None if the study needs none.
    """

    name: str
    preset: str
    seed: int
    limit: int | None = None
    resources: Resources | None = None

    @property
    def study(self) -> Study:
        """The study."""
        return load_study(self.name)

    @property
    def config(self) -> Any:
        """Configuration of the preset, with the limit applied."""
        return self.study.config(self.preset, self.limit)

    @property
    def inputs(self) -> dict[str, Any]:
        """All inputs of the study, with the keys of the record."""
        return {
            "name": self.name,
            "preset": self.preset,
            "commit": commit(),
            "seed": self.seed,
            "config": json.loads(json.dumps(asdict(self.config))),
            "experts": self.resources.fingerprints if self.resources else {},
            "corpora": self.resources.fingerprint if self.resources else None,
        }


def is_current(path: Path, request: Request) -> bool:
    """Whether ``path`` is the result of this request, from the same commit without local changes."""
    inputs = request.inputs
    if inputs["commit"] is None or inputs["commit"].endswith("-dirty"):
        return False
    try:
        record = json.loads(path.read_text())
        outputs = [path.with_suffix(".md"), *(path.parent / f"{figure}.png" for figure in record["figures"])]
        return all(record[key] == value for key, value in inputs.items()) and all(output.exists() for output in outputs)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def execute(request: Request, out: Path, track: Track, *, pdf: bool = False) -> tuple[Record, list[Path]]:
    """Run a study and write its record, tables and figures to ``out``.

    Returns:
        The record, and the written files; the file of the record is the first.
    """
    start = time.perf_counter()
    findings = request.study.run(request.config, request.seed, track, request.resources)
    seconds = time.perf_counter() - start
    results = {"seconds": round(seconds, 3), "figures": list(findings.figures), "rows": findings.rows}
    record = cast(Record, {**request.inputs, "versions": versions(), **results})
    markdown = "\n".join(as_markdown(*table) for table in tables(request.name, findings.rows))
    path = out / f"{request.name}.json"
    contents = {out / f"{request.name}.md": markdown.encode()}
    for title, figure in findings.figures.items():
        for file_format in ("png", "pdf") if pdf else ("png",):
            contents[out / f"{title}.{file_format}"] = render(figure, file_format)
    make_folder(out)
    for content_path, data in contents.items():
        write_atomically(content_path, data)
    write_atomically(path, to_json(record).encode())  # last: a record implies that all other files exist
    return record, [path, *contents]


def tables(name: str, rows: list[Row]) -> list[tuple[str, Lines]]:
    """Lay out the tables of a study, each with its title."""
    return [(spec.title, lines) for spec, lines in load_study(name).grids(rows)]
