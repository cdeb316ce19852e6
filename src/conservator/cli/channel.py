"""``conservator channel``: how a reader of pages errs, fitted to pairs of what it wrote and what is right."""

from pathlib import Path
from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Force, Parents, Quiet, check_targets
from conservator.errors import ConservatorError
from conservator.system.files import read_document, write_document

channel = typer.Typer(help="How a reader of pages errs.", no_args_is_help=True)
EXAMPLES = (
    "Examples:\n\n"
    "  conservator channel fit ocr.txt truth.txt -o newspapers.json\n\n"
    "  conservator restore page.txt --channel newspapers.json -o corrected.txt\n\n"
    "Exit codes: 0 fitted, 2 bad usage, 3 bad input or output (with what and where)."
)
SHOWN = 5  # edits that the summary names


@channel.command(epilog=EXAMPLES)
def fit(
    seen: Annotated[str, typer.Argument(metavar="OCR", help="What the reader wrote; - for standard input.")],
    clean: Annotated[str, typer.Argument(metavar="TRUTH", help="What is right, line by line the same text.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The channel to write, a JSON file; - for standard output.")],
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Fit a channel to pairs of lines: which strings are read as which others, and how often."""
    check_targets({"--out": out}, force=force, parents=parents)
    texts = [read_lines(name) for name in (seen, clean)]

    from conservator.alignment.fit_edits import fit_edits, pair_lines

    found = fit_edits(pair_lines(*texts), f"{Path(seen).name} and {Path(clean).name}")
    write_document(out, found.to_json().encode())
    often = list(found.edits.items())[:SHOWN]
    shown = ", ".join(f"{before!r} as {after!r} ({100 * share:.1f} %)" for (before, after), share in often)
    messages.print(f"{len(found.edits)} edits; most often {shown}", soft_wrap=True, markup=False)


def read_lines(name: str) -> list[str]:
    """The lines of a file in UTF-8."""
    try:
        return read_document(name).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConservatorError(f"{name} is not UTF-8: byte {error.start}") from error
