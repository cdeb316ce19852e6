"""The command line: results go to standard output, messages and progress to standard error."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import conservator
from conservator.cli import batch, channel, check, compare, convert, damage, experts, reproduce, restore, serve, train
from conservator.cli.console import messages, printable
from conservator.cli.options import as_option
from conservator.errors import ConservatorError, NotTextError

INTERRUPTED = 130  # the exit code
UsageError: Any = typer.BadParameter.__base__


class Conservator(TyperGroup):
    """The commands. What a user mistyped is shown so that a terminal does not obey it."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Read the command line."""
        with as_shown():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C ends it with a line."""
        try:
            with as_shown():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            messages.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def as_shown() -> Iterator[None]:
    """Show controls in the message of a usage error."""
    try:
        yield
    except UsageError as error:
        error.message = printable(error.message)
        raise


app = typer.Typer(
    name="conservator",
    cls=Conservator,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Print the version and leave, if that is wanted."""
    if wanted:
        print(f"conservator {conservator.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=print_version)
    ] = False,
) -> None:
    """Restore damaged documents by composing frozen expert models position by position."""


app.command(epilog=restore.EXAMPLES)(restore.restore)
app.command(epilog=batch.EXAMPLES)(batch.batch)
app.command(epilog=damage.EXAMPLES)(damage.damage)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog=train.EXAMPLES)(train.train)
app.command(epilog=check.EXAMPLES)(check.check)
app.add_typer(experts.experts, name="experts")
app.add_typer(channel.channel, name="channel")
app.command(epilog=convert.EXAMPLES)(convert.convert)
app.command(epilog=reproduce.EXAMPLES)(reproduce.reproduce)


def main() -> None:
    """Run the command line; bad input gets one clear line and exit code 3, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets its table
    messages.quiet = False
    try:
        try:
            app()
        finally:
            finish_output()
    except ConservatorError as error:
        unharmed = "; nothing was written" if isinstance(error, NotTextError) else ""
        fail(f"{error.format_message(as_option)}{unharmed}")
    except OSError as error:  # a name that is too long, a loop of links, a folder that may not be entered, a full disk
        what = "cannot write standard output" if error.filename is None else f"cannot use {error.filename}"
        fail(f"{what}: {error.strerror or error}")


def finish_output() -> None:
    """Write what standard output still holds: a full disk is said now, and not in Python's words at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest goes
        if error.errno == errno.EPIPE:  # whoever read it has stopped
            sys.exit(1)
        raise ConservatorError(f"cannot write standard output: {error.strerror}") from error


def fail(problem: str) -> NoReturn:
    """Say what is wrong, and leave."""
    messages.quiet = False
    messages.print(f"error: {problem}", soft_wrap=True)
    sys.exit(3)
