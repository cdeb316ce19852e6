"""The command line: results go to standard output, messages and progress to standard error."""

import io
import sys
from typing import Annotated

import typer

import conservator
from conservator.cli import batch, channel, check, compare, convert, damage, experts, reproduce, restore, serve, train
from conservator.cli.console import messages
from conservator.cli.options import as_option
from conservator.errors import ConservatorError, NotTextError

app = typer.Typer(
    name="conservator",
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
        app()
    except ConservatorError as error:
        messages.quiet = False
        unharmed = "; nothing was written" if isinstance(error, NotTextError) else ""
        messages.print(f"error: {error.worded(as_option)}{unharmed}", soft_wrap=True)
        sys.exit(3)
