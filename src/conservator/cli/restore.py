"""``conservator restore``: a damaged document, whole again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from conservator.cli.console import messages
from conservator.files import check_writable, read_document, write_document

if TYPE_CHECKING:
    from conservator.documents.restored import Restoration

EXAMPLES = (
    "Examples:\n\n"
    "  conservator restore damaged.md -o restored.md --report report.html\n\n"
    '  conservator restore scan.txt --mark "_" --min-confidence 0.8 > restored.txt\n\n'
    '  conservator restore notes.txt --gap "[...]" --max-gap 24 --alternatives 5 --json notes.json -o -\n\n'
    "Exit codes: 0 restored, 2 bad usage, 3 bad input or output (with what and where), 4 nothing to restore, "
    "130 interrupted (no file is left half-written)."
)
IN_REPORTS = 4  # alternatives that a report shows where no number is given
STAGES = {"lengths": "finding lengths", "reading": "reading", "alternatives": "weighing alternatives"}


def restore(
    damaged: Annotated[str, typer.Argument(help="The damaged document; - for standard input.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where to write the restored document; - for standard output.")
    ] = "-",
    experts: Annotated[
        str, typer.Option(help="Experts that may be trusted: built-in names or folders, with commas between.")
    ] = "prose,code,config",
    mark: Annotated[
        str, typer.Option(help="What stands for one lost byte; U+FFFD by default.", show_default=False)
    ] = "\ufffd",
    gap: Annotated[
        str | None, typer.Option(help='What stands for a stretch of unknown length, such as "[...]".')
    ] = None,
    max_gap: Annotated[int, typer.Option(min=1, max=256, help="The longest such stretch, in bytes.")] = 32,
    lost: Annotated[
        str, typer.Option(help="What is lost: what is marked, or bytes that are not UTF-8 as well (invalid).")
    ] = "marked",
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave what is less sure than this as it was.")
    ] = 0.0,
    alternatives: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100,
            help=f"Give so many joint fills of each gap, in the report and the JSON file; {IN_REPORTS} for these, "
            "else none. The text then has the best of them.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[str | None, typer.Option(help="Write the report, one HTML file, here.")] = None,
    json: Annotated[str | None, typer.Option(help="Write everything that was found as JSON here.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=10**12, help="The seed that everything random follows from.")] = 0,
) -> None:
    """Restore the lost bytes of a document, each by the experts that are at home there.

    Visible bytes stay as they are, and the result is valid UTF-8.
    """
    if lost not in ("marked", "invalid"):
        raise typer.BadParameter(f"{lost!r}; known: marked, invalid", param_hint="--lost")
    if not mark or gap == "":
        raise typer.BadParameter("it must be at least one character", param_hint="--gap" if mark else "--mark")
    if gap == mark:
        raise typer.BadParameter(f"it is {gap!r}, as the mark; they must differ", param_hint="--gap")
    targets = [path for path in (out, report, json) if path is not None]
    if targets.count("-") > 1:
        raise typer.BadParameter("only one of --out, --report and --json can go to standard output", param_hint="--out")
    for path in targets:
        if path != "-":
            check_writable(Path(path))
    document = read_document(damaged)

    from conservator.restoration import restore as restore_document

    wanted = alternatives if alternatives is not None else IN_REPORTS if report or json else 0
    with progress_bar() as progress:
        found = restore_document(
            document,
            experts,
            mark=mark,
            gap=gap,
            max_gap=max_gap,
            invalid="lost" if lost == "invalid" else "refuse",
            min_confidence=min_confidence,
            alternatives=wanted,
            seed=seed,
            progress=progress,
        )
    name = "standard input" if damaged == "-" else os.fsencode(Path(damaged).name).decode(errors="replace")
    write_document(out, found.data)
    if report is not None:
        write_document(report, found.to_html(name).encode())
    if json is not None:
        write_document(json, found.to_json().encode())
    if not found.spans:
        messages.print(f"nothing to restore: {name} has no {describe_damage(mark, gap, lost)}", soft_wrap=True)
        raise typer.Exit(4)
    console = messages if "-" in targets else Console(highlight=False, markup=False)
    console.print("\n".join(summary(found)), soft_wrap=True)


@contextmanager
def progress_bar() -> "Iterator[Callable[[str, float], None]]":
    """A bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description:22}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(
        *columns, TimeElapsedColumn(), console=messages, transient=True, disable=not messages.is_terminal
    ) as bar:
        task = bar.add_task("loading experts", total=1.0)
        yield lambda doing, share: bar.update(task, description=STAGES[doing], completed=share)


def describe_damage(mark: str, gap: str | None, lost: str) -> str:
    """What was looked for and not found."""
    signs = ["mark U+FFFD" if mark == "\ufffd" else f"mark {mark!r}"]
    if gap is not None:
        signs.append(f"gap {gap!r}")
    if lost == "invalid":
        signs.append("byte that is not UTF-8")
    return " and no ".join(signs)


def summary(found: "Restoration") -> list[str]:
    """What was lost, restored and left open, how sure that is, and what it cost."""
    lost, opened = int(found.changed.sum()), int(found.left_open.sum())
    places = len(found.spans)
    lines = [f"{lost} of {len(found.tokens)} bytes were lost, in {places} place{'s' if places != 1 else ''}"]
    expected = found.expected_accuracy
    if expected is not None:
        sure = int((found.confidence[found.changed & ~found.left_open] >= 0.9).sum())
        lines.append(
            f"{lost - opened} restored, {sure} of them at least 90 % sure; {100 * expected:.1f} % should be right"
        )
    if opened:
        lines.append(f"{opened} left open, which were not sure enough")
    trusted = found.field[found.changed].mean(axis=0)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in zip(found.experts, trusted, strict=True))
    lines.append(f"trusted there: {shares}")
    lines.append(f"{found.cost.evaluations} network evaluations, {found.cost.seconds:.1f} s")
    return lines
