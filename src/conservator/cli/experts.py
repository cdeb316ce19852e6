"""``conservator experts``: what comes with the package, what was added, and adding more."""

import json as json_format
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from conservator.cli.console import SafeConsole, messages

EXAMPLES = (
    "Examples:\n\n  conservator experts\n\n  conservator experts ./notes prose\n\n"
    "  conservator experts hf:models/bert ./adapter\n\n"
    "  conservator experts --json | jq '.[].name'\n\n  conservator experts add smollm2\n\n"
    "Exit codes: 0 listed, 2 bad usage, 3 no such expert or a damaged one."
)
ADD_EXAMPLES = (
    "Examples:\n\n  conservator experts add smollm2\n\n"
    "Exit codes: 0 it is there, 2 bad usage, 3 not known, or it could not be fetched; 130 or 143 stopped, "
    "nothing is left."
)
REMOVE_EXAMPLES = (
    "Examples:\n\n  conservator experts remove smollm2\n\nExit codes: 0 removed, 2 bad usage, 3 it was not added."
)
WORST = 1e6  # nats; what is more is no loss


class Experts(TyperGroup):
    """A group whose command is ``list`` where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``list`` before names and options that follow no command."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


experts = typer.Typer(cls=Experts, rich_markup_mode="rich")


@experts.callback(epilog=EXAMPLES)
def about() -> None:
    """List experts (names or folders, --json), and add language models or remove them."""


@experts.command("list", epilog=EXAMPLES)
def list_experts(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experts, folders, hf: models or added models; all built-in and added ones if none is given."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List experts with their size, their data and their loss; language models with their size and licence."""
    from conservator.experts import builtin_names
    from conservator.experts.language_models import added_models

    added = {model.name: model for model in added_models()}
    rows = [
        describe_model(added[name]) if name in added and name not in builtin_names() else describe_expert(name)
        for name in names or [*builtin_names(), *added]
    ]
    if json:
        sys.stdout.write(json_format.dumps(rows, indent=2) + "\n")
        return
    if not rows:
        messages.print("no experts come with this package; name folders that conservator train wrote")
        return
    console = SafeConsole(highlight=False, markup=False)
    tables = {network_table: "nats_per_masked_byte", token_table: "tokens", model_table: "licence"}
    for number, (table, field) in enumerate(tables.items()):
        some = [row for row in rows if field in row]
        if some:
            console.print(*[""] * (number > 0 and len(some) < len(rows)), table(some), sep="\n")


def network_table(rows: list[dict[str, Any]]) -> Table:
    """The table of networks over bytes."""
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
    return table


def token_table(rows: list[dict[str, Any]]) -> Table:
    """The table of experts over tokens."""
    table = Table("expert over tokens", "MB", "kind", "tokens", "source", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(row["name"], f"{row['bytes'] / 1e6:.1f}", row["kind"], str(row["tokens"]), row["source"])
    return table


def model_table(rows: list[dict[str, Any]]) -> Table:
    """The table of language models."""
    table = Table("language model", "MB", "kind", "licence", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(row["name"], f"{row['bytes'] / 1e6:.1f}", row["kind"], row["licence"] or "not known")
    return table


def describe_expert(name: str) -> dict[str, Any]:
    """What is known of an expert: a folder, a built-in one, or a pretrained model."""
    from conservator.experts import expert_folder, read_config
    from conservator.experts.denoisers import describe_denoiser
    from conservator.experts.flow import is_flow
    from conservator.experts.language_models.loading import HUB

    if name.startswith(HUB) or is_flow(expert_folder(name)):
        return describe_denoiser(name)
    return describe(read_config(expert_folder(name)))


def describe(config: dict[str, Any]) -> dict[str, Any]:
    """What is known of an expert, from its config."""
    about = config["about"]
    data, steps = about.get("data"), about.get("steps")
    return {
        "name": config["name"],
        "kind": "bytes",
        "bytes": config["weights"]["bytes"],
        "data": list(map(str, data)) if isinstance(data, list) else [],
        "steps": steps if type(steps) is int else None,
        "nats_per_masked_byte": loss_of(about),
        "reads": config["network"]["context"],
        "sha256": config["weights"]["sha256"],
    }


def loss_of(about: dict[str, Any]) -> dict[str, float] | None:
    """The loss that training measured, with its interval; None if nothing of that kind is recorded."""
    held_out = about.get("held_out")
    found = held_out.get("nats_per_masked_byte") if isinstance(held_out, dict) else None
    values = [found.get(key) for key in ("value", "low", "high")] if isinstance(found, dict) else [None]
    sound = all(isinstance(value, int | float) and abs(value) < WORST for value in values)
    return found if sound else None


def describe_model(model: Any) -> dict[str, Any]:
    """What is known of a language model that was added."""
    return {
        "name": model.name,
        "kind": model.kind,
        "bytes": model.bytes,
        "licence": model.licence,
        "sha256": model.sha256,
    }


@experts.command(epilog=ADD_EXAMPLES)
def add(name: Annotated[str, typer.Argument(help="A known model: smollm2 or gemma3-270m.")]) -> None:
    """Fetch a language model into the user's cache, check its sha256, and convert it; says its size and licence."""
    from conservator.experts.language_models import add_model

    try:
        with ended_by_sigterm():
            add_model(name, lambda text: messages.print(text, soft_wrap=True), show=messages.is_terminal)
    except KeyboardInterrupt:
        messages.print("stopped; nothing was added")
        raise typer.Exit(130) from None


@experts.command(epilog=REMOVE_EXAMPLES)
def remove(name: Annotated[str, typer.Argument(help="A model that was added.")]) -> None:
    """Remove a language model from the user's cache."""
    from conservator.experts.language_models import remove_model

    with ended_by_sigterm():
        messages.print(f"removed {remove_model(name)}", soft_wrap=True)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM in a ``with`` block ends the program by an exception, so that temporary folders are removed."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
