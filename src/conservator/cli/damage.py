"""``conservator damage``: damages a document at random, for tests."""

from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Force, Mark, Parents, Quiet, Seed, check_targets, read_text
from conservator.options import DEFAULTS
from conservator.system.files import write_document

EXAMPLES = (
    "Examples:\n\n"
    "  conservator damage notes.md --rate 0.1 -o damaged.md\n\n"
    "  conservator damage notes.md --rate 0.2 --burst 8 | conservator restore - -o restored.md\n\n"
    "  conservator damage notes.md --rate 0.05 --channel replacement | conservator restore - --channel "
    "replacement:0.05\n\n"
    "  conservator damage notes.md --rate 0.02 --channel typing | conservator restore - --channel typing\n\n"
    "  conservator damage notes.md --rate 0.1 --channel lacunae | conservator restore - --notation leiden\n\n"
    "Exit codes: 0 damaged, 2 invalid usage, 3 input or output error."
)


def damage(
    document: Annotated[str, typer.Argument(metavar="FILE", help="An undamaged document; - reads standard input.")],
    rate: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the bytes to damage, 0 to 1.")] = 0.2,
    channel: Annotated[
        str,
        typer.Option(
            help="mask: replace each lost byte by a mark. replacement: replace it by a random byte. A channel of "
            "errors in visible text, such as typing: make such errors. lacunae: replace spans of letters by lacunae in "
            "Leiden conventions, of known, estimated and unknown length."
        ),
    ] = "mask",
    burst: Annotated[int, typer.Option(min=1, help="Number of consecutive bytes in each damaged span.")] = 1,
    mark: Mark = DEFAULTS.mark,
    seed: Seed = DEFAULTS.seed,
    out: Annotated[str, typer.Option("--out", "-o", help="Output file; - writes to standard output.")] = "-",
    force: Force = False,
    parents: Parents = False,
    quiet: Quiet = False,
) -> None:
    """Damage random bytes of a document, to test restoration."""
    from conservator.channels import CORRUPT
    from conservator.notation import damage_in_leiden

    corrupt = {**CORRUPT, "lacunae": damage_in_leiden}
    if channel not in ("mask", "replacement", *corrupt):
        known = ", ".join(("mask", "replacement", *corrupt))
        raise typer.BadParameter(f"unknown channel {channel!r}; expected one of {known}", param_hint="--channel")
    check_targets({"--out": out}, force=force, parents=parents)
    source = read_text(document, marks=(mark,))

    from conservator.documents import UTF8, encode_text, write_text
    from conservator.documents import damage as damage_document

    if channel in corrupt:
        import numpy as np

        damaged_text = corrupt[channel](source.data.decode(), rate, np.random.default_rng(seed))
        write_document(out, encode_text(damaged_text, source.encoding)[0])
        return
    if channel == "mask" and source.encoding != UTF8:  # in other encodings a mark stands for a character
        text = source.data.decode()
        damaged_text = damage_document(text, rate, burst=burst, mark=mark, seed=seed)
        write_document(out, write_text(damaged_text, source.encoding))
        messages.print(f"{damaged_text.count(mark)} of {len(text)} characters lost", soft_wrap=True)
        return
    data = source.data if source.encoding == UTF8 else write_text(source.data.decode(), source.encoding)
    damaged = damage_document(
        data, rate, channel="mask" if channel == "mask" else "replacement", burst=burst, mark=mark, seed=seed
    )
    write_document(out, damaged)
    if channel == "mask":
        messages.print(f"{damaged.count(mark.encode())} of {len(data)} bytes lost", soft_wrap=True)
