"""``conservator reproduce``: the paper's studies."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from conservator.cli.console import SafeConsole, messages, track
from conservator.cli.options import Force, Parents, Quiet, Seed, Threads, TrustRemoteCode, check_targets
from conservator.errors import ConservatorError
from conservator.system.files import check_folder, check_writable, write_atomically

if TYPE_CHECKING:
    from conservator_studies.execution import Request
    from conservator_studies.resources import Resources

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
            help="ROLE=NAME: an expert in place of the one that a study has or trains; roles are prose, code, config, "
            "markdown, math, generalist, generalist_2x, generalist_3x. May be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the result file, the table and the figures.")] = Path("out"),
    json: Annotated[str | None, typer.Option(help="Write the result file here too; - for standard output.")] = None,
    seed: Seed = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many repeats or windows at most, for a quick try.")
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write the figures as PDF too.")] = False,
    trust_remote_code: TrustRemoteCode = False,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Run a study of the paper; print its table with the paper's figures beside ours.

    A result of the same study in the folder is replaced. With all, run every study whose result is not in the folder
    yet, and write RESULTS.md. A result counts if seed, sizes, experts, texts and the code are the same; a run that was
    stopped goes on where it was.
    """
    from conservator_studies import PRESETS, STUDIES

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
    check_targets({"--json": json}, force=force, parents=parents)
    check_writable(check_folder(out, parents=parents) / f"{name}.json", force=True)
    copy = None if json in (None, "-") else Path(json)

    from conservator.evaluation.tables import as_table
    from conservator_studies.execution import Request, execute, tables
    from conservator_studies.resources import open_resources
    from conservator_studies.study import load_study

    if name == "all":
        found = open_resources(corpora, experts or [], out, trust_remote_code=trust_remote_code)
        reproduce_all(preset, seed, limit, found, out, pdf=pdf)
        return
    resources = None
    if load_study(name).needs_resources:
        resources = open_resources(corpora, experts or [], out, trust_remote_code=trust_remote_code)
    request = Request(name, preset, seed, limit, resources)
    if missing := request.study.lacks(request.config, resources):
        raise ConservatorError(f"{name}: {missing}")
    result, written = execute(request, out, track, pdf=pdf)
    record = written[0].read_bytes()
    if copy is not None:
        write_atomically(copy, record)
        written.append(copy)
    console = messages if json == "-" else SafeConsole(highlight=False, markup=False)
    for title, lines in tables(name, result.rows):
        console.print(as_table(title, lines))
    console.print(f"{describe_size(request)}; preset {preset}, seed {seed}.")
    if json == "-":
        sys.stdout.write(record.decode())
    messages.print(f"{result.seconds:.1f} s; wrote {', '.join(map(str, written))}", soft_wrap=True)


def reproduce_all(preset: str, seed: int, limit: int | None, resources: "Resources", out: Path, *, pdf: bool) -> None:
    """Run the studies whose results are not there yet, then write the report."""
    from conservator_studies import STUDIES
    from conservator_studies.corpora import DOMAINS, find_file
    from conservator_studies.execution import Request, execute, is_current
    from conservator_studies.report import report
    from conservator_studies.study import load_study

    studies = {name: load_study(name) for name in STUDIES}
    if any(study.needs_resources for study in studies.values()):
        resources.choose(list(DOMAINS))  # a missing expert is said now, not in an hour
    for name, study in track(studies.items(), "studies"):
        if study.domain and find_file(resources.corpora, study.domain, study.split) is None:
            messages.print(f"{name}: left out, these corpora have no {study.domain}", soft_wrap=True)
            continue
        request = Request(name, preset, seed, limit, resources if study.needs_resources else None)
        if missing := study.lacks(request.config, request.resources):
            messages.print(f"{name}: left out, {missing}", soft_wrap=True)
            continue
        if is_current(out / f"{name}.json", request):
            messages.print(f"{name}: done before", soft_wrap=True)
            continue
        result, _ = execute(request, out, track, pdf=pdf)
        messages.print(f"{name}: {result.seconds:.1f} s", soft_wrap=True)
    write_atomically(out / "RESULTS.md", report(out).encode())
    messages.print(f"wrote {out / 'RESULTS.md'}", soft_wrap=True)


def describe_size(request: "Request") -> str:
    """How much the figures rest on, and what stands after ± or in brackets."""
    unit = request.study.unit
    count = getattr(request.config, unit)
    if unit != "repeats":
        return f"{count} {unit}; [95 % intervals] over documents"
    return f"Mean ± standard deviation of {count} repeats" if count > 1 else "One repeat"


def list_studies() -> None:
    """Print the names of the studies, and what each shows."""
    from conservator_studies import STUDIES

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, entry in STUDIES.items():
        table.add_row(name, entry.summary)
    SafeConsole(highlight=False).print(table)
