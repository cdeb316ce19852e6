"""``conservator damage``: test material."""

from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Force, Parents, Quiet, Seed, check_targets, read_text
from conservator.options import DEFAULTS
from conservator.system.files import write_document

EXAMPLES = (
    "Examples:\n\n"
    "  conservator damage notes.md --rate 0.1 -o damaged.md\n\n"
    "  conservator damage notes.md --rate 0.2 --burst 8 | conservator restore - -o restored.md\n\n"
    "  conservator damage notes.md --rate 0.05 --channel replacement | conservator restore - --channel "
    "replacement:0.05\n\n"
    "Exit codes: 0 damaged, 2 bad usage, 3 bad input or output."
)


def damage(
    document: Annotated[str, typer.Argument(metavar="FILE", help="A clean document; - for standard input.")],
    rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="The share of the bytes that is damaged.")] = 0.2,
    channel: Annotated[
        str, typer.Option(help="mask: a mark stands for each lost byte; replacement: a random byte, not marked.")
    ] = "mask",
    burst: Annotated[int, typer.Option(min=1, help="How many bytes are damaged together.")] = 1,
    mark: Annotated[
        str, typer.Option(help="What stands for one lost byte; U+FFFD by default.", show_default=False)
    ] = DEFAULTS.mark,
    seed: Seed = DEFAULTS.seed,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where to write the damaged document; - for standard output.")
    ] = "-",
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Lose bytes of a clean document at random, to see what comes back."""
    if channel not in ("mask", "replacement"):
        raise typer.BadParameter(f"no channel {channel!r}; known: mask, replacement", param_hint="--channel")
    check_targets({"--out": out}, force=force, parents=parents)
    source = read_text(document, markers=(mark,))

    from conservator.documents import UTF8, write_text
    from conservator.documents import damage as damage_document

    if channel == "mask" and source.encoding != UTF8:  # in other encodings a mark stands for a whole character
        text = source.data.decode()
        lossy = damage_document(text, rate, burst=burst, mark=mark, seed=seed)
        write_document(out, write_text(lossy, source.encoding))
        messages.print(f"{lossy.count(mark)} of {len(text)} characters lost", soft_wrap=True)
        return
    data = source.data if source.encoding == UTF8 else write_text(source.data.decode(), source.encoding)
    damaged = damage_document(
        data, rate, channel="mask" if channel == "mask" else "replacement", burst=burst, mark=mark, seed=seed
    )
    write_document(out, damaged)
    if channel == "mask":
        messages.print(f"{damaged.count(mark.encode())} of {len(data)} bytes lost", soft_wrap=True)
