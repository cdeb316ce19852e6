"""``conservator reproduce``: the paper's studies."""

import sys
import time
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conservator.cli.console import messages, track
from conservator.files import check_writable, write_atomically
from conservator.studies import PRESETS, STUDIES

EXAMPLES = (
    "Examples:\n\n"
    "  conservator reproduce --list\n\n"
    "  conservator reproduce simulator\n\n"
    "  conservator reproduce simulator --limit 1 --json - | jq .rows\n\n"
    "Exit codes: 0 done, 2 bad usage, 3 bad input or output, 130 interrupted."
)


def reproduce(
    name: Annotated[str | None, typer.Argument(help="The study to run; --list names them.", show_default=False)] = None,
    show: Annotated[bool, typer.Option("--list", help="List the studies and leave.")] = False,
    preset: Annotated[
        str, typer.Option(help="laptop (two CPU cores, minutes) or paper (the paper's sizes).")
    ] = "laptop",
    out: Annotated[Path, typer.Option(help="The folder for the result file, the table and the figures.")] = Path("out"),
    json: Annotated[str | None, typer.Option(help="Write the result file here too; - for standard output.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=10**12, help="The seed that everything random follows from.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Repeat at most so many times, for a quick try.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write the figures as PDF too.")] = False,
) -> None:
    """Run a study of the paper; print its table with the paper's figures beside ours."""
    if show:
        list_studies()
        return
    if name is None:
        raise typer.BadParameter(f"which one? Known studies: {', '.join(STUDIES)}", param_hint="NAME")
    if name not in STUDIES:
        raise typer.BadParameter(f"no study {name!r}; known: {', '.join(STUDIES)}", param_hint="NAME")
    if preset not in PRESETS:
        raise typer.BadParameter(f"no preset {preset!r}; known: {', '.join(PRESETS)}", param_hint="--preset")
    # Before the work, not after it:
    check_writable(out / f"{name}.json")
    copy = None if json in (None, "-") else check_writable(Path(json))

    from conservator.figures import render
    from conservator.studies.result import Result, as_markdown, as_table, grid

    study = import_module(STUDIES[name].module)
    config = study.PRESETS[preset]
    if limit is not None:
        config = replace(config, repeats=min(limit, config.repeats))
    start = time.perf_counter()
    findings = study.run(config, seed, track)
    result = Result(name, preset, seed, asdict(config), time.perf_counter() - start, findings.rows)

    tables = [(spec.title, grid(findings.rows, spec, study.LABELS)) for spec in study.TABLES]
    record = result.to_json()
    markdown = "\n".join(as_markdown(*table) for table in tables)
    written = {out / f"{name}.json": record.encode(), out / f"{name}.md": markdown.encode()}
    if copy is not None:
        written[copy] = record.encode()
    for title, figure in findings.figures.items():
        for form in ("png", "pdf") if pdf else ("png",):
            written[out / f"{title}.{form}"] = render(figure, form)
    for path, data in written.items():
        write_atomically(path, data)

    console = messages if json == "-" else Console(highlight=False, markup=False)
    for table in tables:
        console.print(as_table(*table))
    repeats = f"Mean ± standard deviation of {config.repeats} repeats" if config.repeats > 1 else "One repeat"
    console.print(f"{repeats}; preset {preset}, seed {seed}.")
    if json == "-":
        sys.stdout.write(record)
    messages.print(f"{result.seconds:.1f} s; wrote {', '.join(map(str, written))}", soft_wrap=True)


def list_studies() -> None:
    """Print the names of the studies, and what each shows."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, entry in STUDIES.items():
        table.add_row(name, entry.summary)
    Console(highlight=False).print(table)
