"""``conservator experts``: what comes with the package."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from conservator.cli.console import messages

EXAMPLES = (
    "Examples:\n\n  conservator experts\n\n  conservator experts experts/notes prose\n\n"
    "Exit codes: 0 listed, 2 bad usage, 3 no such expert or a damaged one."
)


def experts(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experts or folders; all built-in ones if none is given.")
    ] = None,
) -> None:
    """List experts with their size, their data and their loss on held-out documents of it."""
    from conservator.experts.byte import read_config
    from conservator.experts.library import builtin_names, expert_folder

    if not names and not builtin_names():
        messages.print("no experts come with this package; name folders that conservator train wrote")
        return
    table = Table("expert", "MB", "data", "steps", "nats per masked byte", "reads", box=None, padding=(0, 2, 0, 0))
    for name in names or builtin_names():
        folder = expert_folder(name)
        config = read_config(folder)
        about = config["about"]
        figures = about.get("held_out")
        loss = figures.get("nats_per_masked_byte") if isinstance(figures, dict) else None
        table.add_row(
            config["name"],
            f"{config['weights']['bytes'] / 1e6:.1f}",
            ", ".join(map(str, about.get("data", []))),
            str(about.get("steps", "")),
            f"{loss['value']:.3f} [{loss['low']:.3f}, {loss['high']:.3f}]" if loss else "not measured",
            f"{config['network']['context']} bytes",
        )
    Console(highlight=False, markup=False).print(table)
