"""``conservator compare``: how much came back."""

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from conservator.cli.options import Force, Parents, check_targets, read_text
from conservator.options import DEFAULTS
from conservator.system.files import write_document

EXAMPLES = (
    "Examples:\n\n"
    "  conservator compare notes.md restored.md damaged.md\n\n"
    "  conservator compare notes.md restored.md damaged.md --json - | jq .accuracy\n\n"
    "Exit codes: 0 compared, 2 bad usage, 3 bad input (with what and where)."
)


def compare(
    original: Annotated[str, typer.Argument(help="The document before it was damaged.")],
    restored: Annotated[str, typer.Argument(help="What was restored.")],
    damaged: Annotated[str, typer.Argument(help="The damaged document.")],
    mark: Annotated[
        str, typer.Option(help="What stands for one lost byte; U+FFFD by default.", show_default=False)
    ] = DEFAULTS.mark,
    json: Annotated[str | None, typer.Option(help="Write the figures as JSON here; - for standard output.")] = None,
    force: Force = False,
    parents: Parents = False,
) -> None:
    """Score a restored document: lost bytes that came back, character errors, and changes where nothing was lost."""
    if not mark:
        raise typer.BadParameter("it must be at least one character", param_hint="--mark")
    check_targets({"--json": json}, force=force, parents=parents)
    clean = read_text(original, markers=(mark,))
    named = clean.encoding if clean.encoding == "utf-8" else None  # bytes that were overwritten tell another one
    others = [read_text(path, named, markers=(mark,)).data for path in (restored, damaged)]

    from conservator.documents import compare_documents

    found = compare_documents(clean.data, *others, mark=mark)
    if json is not None:
        record = {**asdict(found), "accuracy": found.accuracy, "character_error_rate": found.character_error_rate}
        write_document(json, (json_format.dumps(record, indent=2) + "\n").encode())
        if json == "-":
            return
    share = "" if found.accuracy is None else f" ({100 * found.accuracy:.1f} %)"
    print(f"right: {found.right} of {found.lost} lost {found.unit}s{share}; {found.lost - found.filled} left open")
    print(f"character error rate: {100 * found.character_error_rate:.2f} %")
    print(f"false changes: {found.false_changes or 'none'}")
