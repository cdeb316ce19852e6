"""``conservator channel``: fits an OCR channel to pairs of OCR text and correct text."""

from pathlib import Path
from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Force, Parents, Quiet, check_targets
from conservator.errors import ConservatorError
from conservator.system.files import read_document, write_document

channel = typer.Typer(help="Fit a model of the errors of an OCR engine.", no_args_is_help=True)
EXAMPLES = (
    "Examples:\n\n"
    "  conservator channel fit ocr.txt truth.txt -o newspapers.json\n\n"
    "  conservator restore page.txt --channel newspapers.json -o corrected.txt\n\n"
    "Exit codes: 0 fitted, 2 invalid usage, 3 input or output error."
)
LISTED_EDITS = 5  # edits: listed in the summary [untuned]


@channel.command(epilog=EXAMPLES)
def fit(
    observed: Annotated[str, typer.Argument(metavar="OCR", help="Text with OCR errors; - reads standard input.")],
    clean: Annotated[str, typer.Argument(metavar="TRUTH", help="The correct text, with the same lines.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Output file (JSON); - writes to standard output.")],
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Fit an OCR channel to pairs of lines: which strings are misread as which, with probabilities.

    Use it with conservator restore --channel FILE.json.
    """
    check_targets({"--out": out}, force=force, parents=parents)
    texts = [read_lines(name) for name in (observed, clean)]

    from conservator.alignment.fit_edits import fit_edits, pair_lines

    fitted = fit_edits(pair_lines(*texts), f"{Path(observed).name} and {Path(clean).name}")
    write_document(out, fitted.to_json().encode())
    frequent = list(fitted.edits.items())[:LISTED_EDITS]
    listed = ", ".join(
        f"{correct!r} as {misread!r} ({100 * probability:.1f} %)" for (correct, misread), probability in frequent
    )
    messages.print(f"fitted {len(fitted.edits)} edits; most frequent: {listed}", soft_wrap=True, markup=False)


def read_lines(name: str) -> list[str]:
    """Read the lines of a UTF-8 file."""
    try:
        return read_document(name).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConservatorError(f"{name} is not valid UTF-8 at byte {error.start}") from error
