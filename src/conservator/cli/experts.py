"""``conservator experts``: what comes with the package."""

import json as json_format
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from conservator.cli.console import messages

EXAMPLES = (
    "Examples:\n\n  conservator experts\n\n  conservator experts ./notes prose\n\n"
    "  conservator experts --json | jq '.[].name'\n\n"
    "Exit codes: 0 listed, 2 bad usage, 3 no such expert or a damaged one."
)


def experts(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experts or folders; all built-in ones if none is given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List experts with their size, their data and their loss on held-out documents of it."""
    from conservator.experts import builtin_names, expert_folder, read_config

    rows = [describe(read_config(expert_folder(name))) for name in names or builtin_names()]
    if json:
        sys.stdout.write(json_format.dumps(rows, indent=2) + "\n")
        return
    if not rows:
        messages.print("no experts come with this package; name folders that conservator train wrote")
        return
    table = Table("expert", "MB", "data", "steps", "nats per masked byte", "reads", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        loss = row["nats_per_masked_byte"]
        table.add_row(
            row["name"],
            f"{row['bytes'] / 1e6:.1f}",
            ", ".join(row["data"]),
            str(row["steps"] or ""),
            f"{loss['value']:.3f} [{loss['low']:.3f}, {loss['high']:.3f}]" if loss else "not measured",
            f"{row['reads']} bytes",
        )
    Console(highlight=False, markup=False).print(table)


def describe(config: dict[str, Any]) -> dict[str, Any]:
    """What is known of an expert, from its config."""
    about = config["about"]
    figures = about.get("held_out")
    return {
        "name": config["name"],
        "bytes": config["weights"]["bytes"],
        "data": list(map(str, about.get("data", []))),
        "steps": about.get("steps"),
        "nats_per_masked_byte": figures.get("nats_per_masked_byte") if isinstance(figures, dict) else None,
        "reads": config["network"]["context"],
        "sha256": config["weights"]["sha256"],
    }
