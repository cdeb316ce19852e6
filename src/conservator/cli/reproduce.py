"""``conservator reproduce``: runs the studies of the paper."""

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
    "Exit codes: 0 done, 2 invalid usage, 3 input or output error, 130 interrupted."
)


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Study to run, or all; --list prints the names.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    preset: Annotated[
        str, typer.Option(help="Size of the study. laptop: minutes on two CPU cores. paper: the sizes of the paper.")
    ] = "laptop",
    corpora: Annotated[
        str | None,
        typer.Option(
            help="Texts for the byte studies: a folder with NAME.SPLIT.jsonl.gz files, demo, or huggingface (default: "
            "the environment variable CONSERVATOR_CORPORA).",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    experts: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=NAME: use this expert instead of the one that the study loads or trains. Roles: prose, code, "
            "config, markdown, math, generalist, generalist_2x, generalist_3x. May be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder for the result file, the tables and the figures.")] = Path(
        "out"
    ),
    json: Annotated[
        str | None, typer.Option(help="Also write the result to this file; - writes to standard output.")
    ] = None,
    seed: Seed = 0,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of repeats or windows, for a quick run (default: no limit)."),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also write the figures as PDF.")] = False,
    trust_remote_code: TrustRemoteCode = False,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Run a study of the paper, and print its results next to those of the paper.

    An existing result of the study in the output folder is replaced. With all, run every study without a current
    result, and write RESULTS.md. A result is current if the seed, the sizes, the experts, the texts and the code are
    the same, so an interrupted run can be resumed with the same command.
    """
    from conservator_studies import PRESETS, STUDIES

    if show:
        list_studies()
        return
    if name is None:
        raise typer.BadParameter(f"expected a study: {', '.join(STUDIES)}, or all", param_hint="NAME")
    if name != "all" and name not in STUDIES:
        raise typer.BadParameter(f"unknown study {name!r}; expected {', '.join(STUDIES)}, or all", param_hint="NAME")
    if preset not in PRESETS:
        raise typer.BadParameter(
            f"unknown preset {preset!r}; expected one of {', '.join(PRESETS)}", param_hint="--preset"
        )
    if name == "all" and json is not None:
        raise typer.BadParameter(
            "not available with all, which writes one result file for each study to --out", param_hint="--json"
        )
    # Check the outputs before the work:
    check_targets({"--json": json}, force=force, parents=parents)
    check_writable(check_folder(out, parents=parents) / f"{name}.json", force=True)
    copy = None if json in (None, "-") else Path(json)

    from conservator.evaluation.tables import as_table
    from conservator_studies.execution import Request, execute, tables
    from conservator_studies.resources import open_resources
    from conservator_studies.study import load_study

    if name == "all":
        all_resources = open_resources(corpora, experts or [], out, trust_remote_code=trust_remote_code)
        reproduce_all(preset, seed, limit, all_resources, out, pdf=pdf)
        return
    resources = None
    if load_study(name).needs_resources:
        resources = open_resources(corpora, experts or [], out, trust_remote_code=trust_remote_code)
    request = Request(name, preset, seed, limit, resources)
    if missing := request.study.lacks(request.config, resources):
        raise ConservatorError(f"{name}: {missing}")
    record, written = execute(request, out, track, pdf=pdf)
    content = written[0].read_bytes()
    if copy is not None:
        write_atomically(copy, content)
        written.append(copy)
    console = messages if json == "-" else SafeConsole(highlight=False, markup=False)
    for title, lines in tables(name, record["rows"]):
        console.print(as_table(title, lines))
    console.print(f"{describe_size(request)}; preset {preset}, seed {seed}.")
    if json == "-":
        sys.stdout.write(content.decode())
    messages.print(f"{record['seconds']:.1f} s; wrote {', '.join(map(str, written))}", soft_wrap=True)


def reproduce_all(preset: str, seed: int, limit: int | None, resources: "Resources", out: Path, *, pdf: bool) -> None:
    """Run the studies without a current result, then write the report."""
    from conservator_studies import STUDIES
    from conservator_studies.corpora import DOMAINS, find_file
    from conservator_studies.execution import Request, execute, is_current
    from conservator_studies.report import report
    from conservator_studies.study import load_study

    studies = {name: load_study(name) for name in STUDIES}
    if any(study.needs_resources for study in studies.values()):
        resources.choose(list(DOMAINS))  # reports a missing expert before the work
    for name, study in track(studies.items(), "studies"):
        if study.domain and find_file(resources.corpora, study.domain, study.split) is None:
            messages.print(f"{name}: skipped, the corpora have no {study.domain}", soft_wrap=True)
            continue
        request = Request(name, preset, seed, limit, resources if study.needs_resources else None)
        if missing := study.lacks(request.config, request.resources):
            messages.print(f"{name}: skipped, {missing}", soft_wrap=True)
            continue
        if is_current(out / f"{name}.json", request):
            messages.print(f"{name}: already done", soft_wrap=True)
            continue
        record, _ = execute(request, out, track, pdf=pdf)
        messages.print(f"{name}: {record['seconds']:.1f} s", soft_wrap=True)
    write_atomically(out / "RESULTS.md", report(out).encode())
    messages.print(f"wrote {out / 'RESULTS.md'}", soft_wrap=True)


def describe_size(request: "Request") -> str:
    """Describe the sample size, and the meaning of ± or brackets."""
    unit = request.study.unit
    count = getattr(request.config, unit)
    if unit != "repeats":
        return f"{count} {unit}; [95 % intervals] over documents"
    return f"Mean ± standard deviation over {count} repeats" if count > 1 else "One repeat"


def list_studies() -> None:
    """Print the names and summaries of the studies."""
    from conservator_studies import STUDIES

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, summary in STUDIES.items():
        table.add_row(name, summary)
    SafeConsole(highlight=False).print(table)
