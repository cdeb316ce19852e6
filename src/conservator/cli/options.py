"""Options that several commands have, and what they do."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conservator.cli.console import messages
from conservator.errors import Advice, OptionError
from conservator.files import check_writable, read_document
from conservator.options import LARGEST_SEED

if TYPE_CHECKING:
    from conservator.documents import Source


def be_quiet(wanted: bool) -> bool:
    """Say nothing but errors and results from now on."""
    if wanted:
        messages.quiet = True
    return wanted


def choose_threads(threads: int | None) -> int | None:
    """Settle how torch works, before it is imported.

    Threads of OpenMP that wait for work spin by default; on a busy machine that makes a restoration many times slower.
    What the environment says stays, unless ``--threads`` says otherwise.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if "torch" in sys.modules:
            import torch

            torch.set_num_threads(threads)
    return threads


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors and results.", callback=be_quiet)]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Threads of one computation; by default what OMP_NUM_THREADS says, or one for each core.",
        callback=choose_threads,
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite files that exist already.")]
Parents = Annotated[bool, typer.Option("--parents", "-p", help="Make folders that are missing.")]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of the document, such as windows-1252 or utf-16; told by its bytes, by default.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The seed that everything random follows from.")]


def read_text(
    name: str, encoding: str | None = None, *, signs: tuple[str | None, ...], stray: bool = False
) -> "Source":
    """The text of a file, or of standard input; a file that is not text is refused."""
    data = read_document(name)

    from conservator.documents import read_source

    shown = "standard input" if name == "-" else os.fsencode(name).decode(errors="replace")
    return read_source(data, encoding, name=shown, signs=signs, stray=stray)


def check_targets(targets: dict[str, str | None], *, force: bool, parents: bool) -> list[str]:
    """Check the files that a command will write, before it does any work.

    Args:
        targets: option -> the file, ``-`` for standard output, or None.
        force: files that exist may be overwritten.
        parents: missing folders are made.

    Returns:
        The files that are given.
    """
    given = {option: name for option, name in targets.items() if name is not None}
    known: dict[object, str] = {}
    for option, name in given.items():
        place: object = name if name == "-" else Path(name).resolve()
        if place in known:
            where = "standard output" if name == "-" else name
            raise typer.BadParameter(f"{known[place]} goes to {where}, too; each needs its own", param_hint=option)
        known[place] = option
    for name in given.values():
        if name != "-":
            check_writable(Path(name), force=force, parents=parents)
    return list(given.values())


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Report a bad option as a usage error of the command, with exit code 2."""
    try:
        yield
    except OptionError as error:
        raise typer.BadParameter(error.problem, param_hint=f"--{error.option.replace('_', '-')}") from error


def as_option(advice: Advice) -> str:
    """An option as the command calls it."""
    return f"--{advice.option.replace('_', '-')} {advice.value}"
