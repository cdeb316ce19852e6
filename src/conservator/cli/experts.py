"""``conservator experts``: lists experts, and adds or removes language models."""

import json as json_format
import signal
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from conservator.cli.console import SafeConsole, exit_on_sigterm, messages

EXAMPLES = (
    "Examples:\n\n  conservator experts\n\n  conservator experts ./notes prose\n\n"
    "  conservator experts hf:models/bert ./adapter\n\n"
    "  conservator experts --json | jq '.[].name'\n\n  conservator experts add smollm2\n\n"
    "Exit codes: 0 listed, 2 invalid usage, 3 unknown or damaged expert."
)
ADD_EXAMPLES = (
    "Examples:\n\n  conservator experts add smollm2\n\n"
    "Exit codes: 0 added, 2 invalid usage, 3 unknown model or failed download; 130 or 143 stopped (no partial files)."
)
REMOVE_EXAMPLES = (
    "Examples:\n\n  conservator experts remove smollm2\n\nExit codes: 0 removed, 2 invalid usage, 3 no such model."
)
TERMINATED = 128 + signal.SIGTERM  # exit code after SIGTERM
MAX_LOSS = 1e6  # nats: larger recorded values are invalid [safety limit]


class Experts(TyperGroup):
    """A group with ``list`` as the default command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``list`` if the first argument is not a command."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


experts = typer.Typer(cls=Experts, rich_markup_mode="rich")


@experts.callback(epilog=EXAMPLES)
def about() -> None:
    """List experts; add or remove language models."""


@experts.command("list", epilog=EXAMPLES)
def list_experts(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names, folders, hf: models or added language models (default: all built-in and added ones)."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List experts with size, training data and held-out loss, and language models with size and licence."""
    from conservator.experts import builtin_names
    from conservator.experts.language_models import added_models

    added = {model.name: model for model in added_models()}
    rows = [
        asdict(added[name]) if name in added and name not in builtin_names() else describe_expert(name)
        for name in names or [*builtin_names(), *added]
    ]
    if json:
        sys.stdout.write(json_format.dumps(rows, indent=2) + "\n")
        return
    if not rows:
        messages.print(
            "this installation has no built-in experts; name the folder of an expert that conservator train wrote"
        )
        return
    console = SafeConsole(highlight=False, markup=False)
    tables = {network_table: "nats_per_masked_byte", token_table: "tokens", model_table: "licence"}
    for number, (make_table, field) in enumerate(tables.items()):
        table_rows = [row for row in rows if field in row]
        if table_rows:
            console.print(*[""] * (number > 0 and len(table_rows) < len(rows)), make_table(table_rows), sep="\n")


def network_table(rows: list[dict[str, Any]]) -> Table:
    """The table of byte-level experts."""
    header = ("expert", "MB", "training data", "steps", "nats per masked byte", "context")
    table = Table(*header, box=None, padding=(0, 2, 0, 0))
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
    return table


def token_table(rows: list[dict[str, Any]]) -> Table:
    """The table of token-level experts."""
    table = Table("token expert", "MB", "kind", "tokens", "source", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(row["name"], f"{row['bytes'] / 1e6:.1f}", row["kind"], str(row["tokens"]), row["source"])
    return table


def model_table(rows: list[dict[str, Any]]) -> Table:
    """The table of language models."""
    table = Table("language model", "MB", "kind", "licence", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(row["name"], f"{row['bytes'] / 1e6:.1f}", row["kind"], row["licence"] or "unknown")
    return table


def describe_expert(name: str) -> dict[str, Any]:
    """Describe an expert: a folder, a built-in one, or a pretrained model."""
    from conservator.experts import expert_folder, read_config
    from conservator.experts.denoisers import describe_denoiser
    from conservator.experts.flow import is_flow
    from conservator.experts.language_models.loading import HUB

    if name.startswith(HUB) or is_flow(expert_folder(name)):
        return describe_denoiser(name)
    return describe_network(read_config(expert_folder(name)))


def describe_network(config: dict[str, Any]) -> dict[str, Any]:
    """Describe a byte-level expert by its config."""
    about = config["about"]
    data, steps = about.get("data"), about.get("steps")
    return {
        "name": config["name"],
        "kind": "bytes",
        "bytes": config["weights"]["bytes"],
        "data": list(map(str, data)) if isinstance(data, list) else [],
        "steps": steps if type(steps) is int else None,
        "nats_per_masked_byte": held_out_loss(about),
        "reads": config["network"]["context"],
        "sha256": config["weights"]["sha256"],
    }


def held_out_loss(about: dict[str, Any]) -> dict[str, float] | None:
    """The held-out loss with its interval; None if it is missing or invalid."""
    held_out = about.get("held_out")
    loss = held_out.get("nats_per_masked_byte") if isinstance(held_out, dict) else None
    values = [loss.get(key) for key in ("value", "low", "high")] if isinstance(loss, dict) else [None]
    is_valid = all(isinstance(value, int | float) and abs(value) < MAX_LOSS for value in values)
    return loss if is_valid else None


@experts.command(epilog=ADD_EXAMPLES)
def add(name: Annotated[str, typer.Argument(help="Name of the model: smollm2 or gemma3-270m.")]) -> None:
    """Download a language model into the user's cache, verify its SHA-256, and convert it."""
    from conservator.experts.language_models import add_model

    try:
        with exit_on_sigterm(TERMINATED):
            add_model(name, lambda text: messages.print(text, soft_wrap=True), show=messages.is_terminal)
    except KeyboardInterrupt:
        messages.print("interrupted; nothing was added")
        raise typer.Exit(130) from None


@experts.command(epilog=REMOVE_EXAMPLES)
def remove(name: Annotated[str, typer.Argument(help="Name of an added model.")]) -> None:
    """Remove a language model from the user's cache."""
    from conservator.experts.language_models import remove_model

    with exit_on_sigterm(TERMINATED):
        messages.print(f"removed {remove_model(name)}", soft_wrap=True)
