"""``conservator compare``: scores a restored document."""

import json as json_format
from dataclasses import asdict
from typing import Annotated

import typer

from conservator.cli.options import Force, Mark, Parents, check_targets, read_text
from conservator.options import DEFAULTS
from conservator.system.files import write_document

EXAMPLES = (
    "Examples:\n\n"
    "  conservator compare notes.md restored.md damaged.md\n\n"
    "  conservator compare notes.md restored.md damaged.md --json - | jq .accuracy\n\n"
    "Exit codes: 0 compared, 2 invalid usage, 3 input or output error."
)


def compare(
    original: Annotated[str, typer.Argument(help="The undamaged document.")],
    restored: Annotated[str, typer.Argument(help="The restored document.")],
    damaged: Annotated[str, typer.Argument(help="The damaged document.")],
    mark: Mark = DEFAULTS.mark,
    json: Annotated[
        str | None, typer.Option(help="Write the scores as JSON to this file; - writes to standard output.")
    ] = None,
    force: Force = False,
    parents: Parents = False,
) -> None:
    """Score a restored document: accuracy at lost positions, character error rate, and changes to undamaged text."""
    if not mark:
        raise typer.BadParameter("must be at least one character", param_hint="--mark")
    check_targets({"--json": json}, force=force, parents=parents)
    clean = read_text(original, marks=(mark,))
    # Overwritten bytes may look like another encoding.
    encoding = clean.encoding if clean.encoding == "utf-8" else None
    others = [read_text(path, encoding, marks=(mark,)).data for path in (restored, damaged)]

    from conservator.documents import compare_documents

    scores = compare_documents(clean.data, *others, mark=mark)
    if json is not None:
        record = {**asdict(scores), "accuracy": scores.accuracy, "character_error_rate": scores.character_error_rate}
        write_document(json, (json_format.dumps(record, indent=2) + "\n").encode())
        if json == "-":
            return
    accuracy = "" if scores.accuracy is None else f" ({100 * scores.accuracy:.1f} %)"
    unfilled = scores.lost - scores.filled
    print(f"correct: {scores.right} of {scores.lost} lost {scores.unit}s{accuracy}; {unfilled} unfilled")
    print(f"character error rate: {100 * scores.character_error_rate:.2f} %")
    print(f"changes to undamaged text: {scores.false_changes or 'none'}")
