"""``conservator reproduce``: the paper's studies."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from conservator.cli.console import messages, track
from conservator.files import check_writable, write_atomically
from conservator.studies import PRESETS, STUDIES

if TYPE_CHECKING:
    from conservator.studies.execution import Request
    from conservator.studies.materials import Materials

EXAMPLES = (
    "Examples:\n\n"
    "  conservator reproduce --list\n\n"
    "  conservator reproduce simulator\n\n"
    "  conservator reproduce simulator --limit 1 --json - | jq .rows\n\n"
    "  conservator reproduce byte3 --corpora corpora/ --limit 16\n\n"
    "  conservator reproduce all --corpora corpora/ --out results\n\n"
    "Exit codes: 0 done, 2 bad usage, 3 bad input or output, 130 interrupted."
)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="The study to run, or all; --list names them.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the studies and leave.")] = False,
    preset: Annotated[
        str, typer.Option(help="laptop (two CPU cores, minutes) or paper (the paper's sizes).")
    ] = "laptop",
    corpora: Annotated[
        str | None,
        typer.Option(
            help="Texts for the byte studies: a folder with NAME.SPLIT.jsonl.gz files, demo, or huggingface; by "
            "default what CONSERVATOR_CORPORA says.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    experts: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=FOLDER: an expert in place of the built-in one; roles are prose, code, config, generalist, "
            "generalist_3x. May be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the result file, the table and the figures.")] = Path("out"),
    json: Annotated[str | None, typer.Option(help="Write the result file here too; - for standard output.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=10**12, help="The seed that everything random follows from.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many repeats or windows at most, for a quick try.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write the figures as PDF too.")] = False,
) -> None:
    """Run a study of the paper; print its table with the paper's figures beside ours.

    With all, run every study whose result is not in the folder yet, and write RESULTS.md. A result counts if seed,
    sizes, experts, texts and the code are the same; a run that was stopped goes on where it was.
    """
    if show:
        list_studies()
        return
    if name is None:
        raise typer.BadParameter(f"which one? Known studies: {', '.join(STUDIES)}, all", param_hint="NAME")
    if name != "all" and name not in STUDIES:
        raise typer.BadParameter(f"no study {name!r}; known: {', '.join(STUDIES)}, all", param_hint="NAME")
    if preset not in PRESETS:
        raise typer.BadParameter(f"no preset {preset!r}; known: {', '.join(PRESETS)}", param_hint="--preset")
    if name == "all" and json is not None:
        raise typer.BadParameter("a result file is of one study; all writes one for each to --out", param_hint="--json")
    # Before the work, not after it:
    check_writable(out / f"{name}.json")
    copy = None if json in (None, "-") else check_writable(Path(json))

    from conservator.studies.execution import Request, execute, tables
    from conservator.studies.materials import open_materials
    from conservator.studies.result import as_table

    if name == "all":
        reproduce_all(preset, seed, limit, open_materials(corpora, experts or [], out), out, pdf=pdf)
        return
    materials = open_materials(corpora, experts or [], out) if STUDIES[name].materials else None
    request = Request(name, preset, seed, limit, materials)
    result, written = execute(request, out, track, pdf=pdf)
    record = written[0].read_bytes()
    if copy is not None:
        write_atomically(copy, record)
        written.append(copy)
    console = messages if json == "-" else Console(highlight=False, markup=False)
    for title, lines in tables(name, result.rows):
        console.print(as_table(title, lines))
    console.print(f"{describe_size(request)}; preset {preset}, seed {seed}.")
    if json == "-":
        sys.stdout.write(record.decode())
    messages.print(f"{result.seconds:.1f} s; wrote {', '.join(map(str, written))}", soft_wrap=True)


def reproduce_all(preset: str, seed: int, limit: int | None, materials: "Materials", out: Path, *, pdf: bool) -> None:
    """Run the studies whose results are not there yet, then write the report."""
    from conservator.studies.corpora import DOMAINS, find_file
    from conservator.studies.execution import Request, execute, is_current
    from conservator.studies.report import report

    if any(entry.materials for entry in STUDIES.values()):
        materials.choose(list(DOMAINS))  # a missing expert is said now, not in an hour
    for name, entry in track(STUDIES.items(), "studies"):
        if entry.domain and find_file(materials.corpora, entry.domain, "eval") is None:
            messages.print(f"{name}: left out, these corpora have no {entry.domain}", soft_wrap=True)
            continue
        request = Request(name, preset, seed, limit, materials if entry.materials else None)
        if is_current(out / f"{name}.json", request):
            messages.print(f"{name}: done before", soft_wrap=True)
            continue
        result, _ = execute(request, out, track, pdf=pdf)
        messages.print(f"{name}: {result.seconds:.1f} s", soft_wrap=True)
    write_atomically(out / "RESULTS.md", report(out).encode())
    messages.print(f"wrote {out / 'RESULTS.md'}", soft_wrap=True)


def describe_size(request: "Request") -> str:
    """How much the figures rest on, and what stands after ± or in brackets."""
    count = getattr(request.config, request.study.UNIT)
    if request.study.UNIT != "repeats":
        return f"{count} {request.study.UNIT}; [95 % intervals] over documents"
    return f"Mean ± standard deviation of {count} repeats" if count > 1 else "One repeat"


def list_studies() -> None:
    """Print the names of the studies, and what each shows."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, entry in STUDIES.items():
        table.add_row(name, entry.summary)
    Console(highlight=False).print(table)
