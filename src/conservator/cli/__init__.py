"""The command line: results are written to standard output, messages and progress to standard error."""

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

INTERRUPTED = 130  # exit code after Ctrl-C
BAD_INPUT = 3  # exit code for an input or output error
UsageError: Any = typer.BadParameter.__base__


class Conservator(TyperGroup):
    """The group of all commands. Control characters in usage errors are escaped."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the command line."""
        with escaped_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C prints one line and exits with code 130."""
        try:
            with escaped_usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            messages.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def escaped_usage_errors() -> Iterator[None]:
    """Escape control characters in the message of a usage error."""
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


def print_version(requested: bool) -> None:
    """Print the version and exit, if ``--version`` was given."""
    if requested:
        print(f"conservator {conservator.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version and exit.", callback=print_version)
    ] = False,
) -> None:
    """Restore damaged text with frozen expert models, weighted separately at each position."""


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
    """Run the command line; an input or output error prints one line and exits with code 3."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters such as ± must not stop the output
    messages.quiet = False
    try:
        try:
            app()
        finally:
            finish_output()
    except ConservatorError as error:
        suffix = "; nothing was written" if isinstance(error, NotTextError) else ""
        fail(f"{error.format_message(as_option)}{suffix}")
    except OSError as error:  # a name that is too long, a link loop, a missing permission, a full disk
        action = "cannot write standard output" if error.filename is None else f"cannot use {error.filename}"
        fail(f"{action}: {error.strerror or error}")


def finish_output() -> None:
    """Flush standard output, so that a full disk is reported as a ConservatorError instead of by Python at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards the remaining output
        if error.errno == errno.EPIPE:  # the reader closed the pipe
            sys.exit(1)
        raise ConservatorError(f"cannot write standard output: {error.strerror}") from error


def fail(problem: str) -> NoReturn:
    """Print an error and exit."""
    messages.quiet = False
    messages.print(f"error: {problem}", soft_wrap=True)
    sys.exit(BAD_INPUT)
