"""``conservator check``: is every expert at home in its own domain?"""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from conservator.cli.console import SafeConsole, messages, track
from conservator.cli.options import (
    Device,
    Force,
    Parents,
    Precision,
    Quiet,
    Threads,
    TrustRemoteCode,
    check_targets,
    load_named,
)
from conservator.system.files import check_folder, check_writable, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from conservator.training.scoring import Estimate
    from conservator.training.specialisation import Cell, Check

EXAMPLES = (
    "Examples:\n\n"
    "  conservator check prose code --data prose=articles/ --data code=src/\n\n"
    "  conservator check ./notes prose --data notes=notes.jsonl.gz --data prose=articles/ --out checked\n\n"
    "  conservator check prose code --data prose=articles/ --data code=src/ --json - | jq .margins\n\n"
    "Exit codes: 0 both verdicts hold, 1 they do not, 2 bad usage, 3 bad input or output, 130 interrupted."
)


def check(
    experts: Annotated[
        list[str], typer.Argument(help="Built-in experts by name, folders of others, or hf:OWNER/NAME.")
    ],
    data: Annotated[
        list[str],
        typer.Option(help="NAME=PATH: texts of a domain; the expert of that name is its own. May be repeated."),
    ],
    windows: Annotated[int, typer.Option(min=2, help="Windows of each domain.")] = 512,
    length: Annotated[int, typer.Option(min=1, help="Bytes a window.")] = 256,
    seed: Annotated[int, typer.Option(min=0, max=10**12, help="Of the windows and what is hidden in them.")] = 0,
    strip: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILTER: take comments out, by python-comments or yaml-comments. May be repeated."),
    ] = None,
    json: Annotated[str | None, typer.Option(help="Write the result here; - for standard output.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for check.json, check.md and the heat map.")] = None,
    device: Device = "cpu",
    precision: Precision = None,
    trust_remote_code: TrustRemoteCode = False,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Score experts on each other's domains: each should prefer its own, and each domain its own expert.

    Energies are nats per byte over all positions, times uniform, with 95 % intervals from a bootstrap over documents.
    The verdicts and margins are among the experts that are named like a domain; others are shown beside them.
    """
    from conservator.evaluation.figures import render
    from conservator.evaluation.provenance import commit, versions
    from conservator.training import FILTERS, read_corpus
    from conservator.training.specialisation import check_specialisation

    paths = pairs(data, "--data")
    filters = pairs(strip or [], "--strip")
    for name, chosen in filters.items():
        if name not in paths or len(chosen) > 1 or chosen[0] not in FILTERS:
            raise typer.BadParameter(
                f"{name}={','.join(chosen)}: expected a domain ({', '.join(paths)}) and one of {', '.join(FILTERS)}",
                param_hint="--strip",
            )
    written = [out / name for name in ("check.json", "check.md", "check.png")] if out else []
    check_targets({"--json": json}, force=force, parents=parents)
    if out:
        check_folder(out, parents=parents)
    for path in written:
        check_writable(path, force=force)
    loaded = load_named(experts, device, precision, with_confidence=trust_remote_code, native_tokens=True)
    domains = {}
    for name, where in paths.items():
        files = list(map(Path, where))
        strips = dict.fromkeys(files, FILTERS[filters[name][0]]) if name in filters else None
        domains[name] = read_corpus(files, strips).documents
    result = check_specialisation(loaded, domains, windows=windows, length=length, seed=seed, track=track)

    record = {
        **result.as_record(),
        "settings": {"windows": windows, "length": length, "seed": seed, "strip": filters},
        "data": {name: [Path(path).name for path in where] for name, where in paths.items()},
        "experts": {expert.spec.name: expert.spec.fingerprint for expert in loaded},
        "commit": commit(),
        "versions": versions(),
    }
    text = json_format.dumps(record, indent=2, allow_nan=False) + "\n"
    for path, content in zip(written, (text, as_markdown(result), None), strict=False):
        write_atomically(path, content.encode() if content else render(heat_map(result), "png"))
    if json == "-":
        sys.stdout.write(text)
    elif json is not None:
        write_atomically(Path(json), text.encode())
    show(result, messages if json == "-" else SafeConsole(highlight=False, markup=False))
    if not result.passed:
        raise typer.Exit(1)


def pairs(values: list[str], option: str) -> dict[str, list[str]]:
    """Take NAME=VALUE apart; a name may come several times."""
    found: dict[str, list[str]] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise typer.BadParameter(f"{value!r}: expected NAME=VALUE", param_hint=option)
        found.setdefault(name, []).append(rest)
    return found


def grids(result: "Check") -> dict[str, list[list[str]]]:
    """The tables as text, by their titles: a heading, then a line a domain."""
    names = list(dict.fromkeys(cell.expert for cell in result.cells))

    def lay_out(chosen: "Callable[[Cell], Estimate]") -> list[list[str]]:
        lines = [["domain", *names]]
        for domain in result.counts:
            lines.append([domain, *(shown(chosen(cell)) for cell in result.cells if cell.domain == domain)])
        return lines

    energies = lay_out(lambda cell: cell.energy)
    energies[0].append("margin")
    for line in energies[1:]:
        line.append(shown(result.margins[line[0]]) if line[0] in result.margins else "")
    return {
        "Energy: nats per byte, over all positions": energies,
        "Loss: nats per masked byte, times uniform": lay_out(lambda cell: cell.per_hidden_byte),
        "Bound: bits per byte, schedule-weighted": lay_out(lambda cell: cell.bits_per_byte),
    }


def shown(estimate: "Estimate") -> str:
    """A figure and its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def verdicts(result: "Check") -> list[str]:
    """The two verdicts in words."""
    return [
        f"each expert prefers its own domain (row-wise): {'yes' if result.row_wise else 'no'}",
        f"each domain prefers its own expert (column-wise): {'yes' if result.column_wise else 'no'}",
    ]


def as_markdown(result: "Check") -> str:
    """The tables and the verdicts as Markdown."""
    from conservator.evaluation.tables import as_markdown as table

    tables = [table(title, lines) for title, lines in grids(result).items()]
    return "\n".join([*tables, *(f"- {verdict}\n" for verdict in verdicts(result))])


def show(result: "Check", console: Console) -> None:
    """Print the tables and the verdicts."""
    from conservator.evaluation.tables import as_table

    for title, lines in grids(result).items():
        console.print(as_table(title, lines))
    for verdict in verdicts(result):
        console.print(verdict)


def heat_map(result: "Check") -> "Figure":
    """Energies as colours, a row a domain; each domain's own expert is in bold."""
    from conservator.evaluation.figures import new_figure

    experts, domains = list(dict.fromkeys(cell.expert for cell in result.cells)), list(result.counts)
    values = [[result.energy(domain, name) for name in experts] for domain in domains]
    middle = (min(map(min, values)) + max(map(max, values))) / 2
    figure = new_figure(1.6 + 1.1 * len(experts), 1.2 + 0.7 * len(domains))
    axes = figure.subplots()
    image = axes.imshow(values, cmap="cividis_r", aspect="auto")
    for row, domain in enumerate(domains):
        for column, name in enumerate(experts):
            value = values[row][column]
            weight = "bold" if name == domain else "normal"
            colour = "white" if value > middle else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, weight=weight)
    axes.set_xticks(range(len(experts)), experts)
    axes.set_yticks(range(len(domains)), domains)
    axes.set(xlabel="expert", ylabel="domain")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, label="energy, nats per byte")
    return figure
