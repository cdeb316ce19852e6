"""``conservator check``: tests whether each expert is best on its own domain."""

import json as json_format
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
from conservator.system.files import check_folder, check_writable, write_atomically, write_document

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
    "Exit codes: 0 both checks passed, 1 a check failed, 2 invalid usage, 3 input or output error, 130 interrupted."
)


def check(
    experts: Annotated[list[str], typer.Argument(help="Built-in names, folders, or hf:OWNER/NAME.")],
    data: Annotated[
        list[str],
        typer.Option(help="NAME=PATH: texts of a domain; the expert with this name belongs to it. May be repeated."),
    ],
    windows: Annotated[int, typer.Option(min=2, help="Number of windows for each domain.")] = 512,
    length: Annotated[int, typer.Option(min=1, help="Length of a window, in bytes.")] = 256,
    seed: Annotated[int, typer.Option(min=0, max=10**12, help="Random seed of the windows and the masks.")] = 0,
    strip: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILTER: remove comments with python-comments or yaml-comments. May be repeated."),
    ] = None,
    json: Annotated[
        str | None, typer.Option(help="Write the result as JSON to this file; - writes to standard output.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder for check.json, check.md and a heat map (check.png).")
    ] = None,
    device: Device = "cpu",
    precision: Precision = None,
    trust_remote_code: TrustRemoteCode = False,
    force: Force = False,
    parents: Parents = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Score each expert on each domain, and check that each expert is best on its own domain.

    The energy is the loss in nats per byte over all positions, averaged over noise levels, with a 95 % bootstrap
    interval over documents. The checks use only the experts that have the name of a domain; the tables list all.
    """
    from conservator.evaluation.figures import render
    from conservator.evaluation.provenance import commit, versions
    from conservator.training import FILTERS, read_corpus
    from conservator.training.specialisation import check_specialisation

    paths = pairs(data, "--data")
    filters = pairs(strip or [], "--strip")
    for name, filter_names in filters.items():
        if name not in paths or len(filter_names) > 1 or filter_names[0] not in FILTERS:
            raise typer.BadParameter(
                f"expected DOMAIN=FILTER with a domain ({', '.join(paths)}) and one of {', '.join(FILTERS)}, got "
                f"{name}={','.join(filter_names)}",
                param_hint="--strip",
            )
    outputs = [out / name for name in ("check.json", "check.md", "check.png")] if out else []
    check_targets({"--json": json}, force=force, parents=parents)
    if out:
        check_folder(out, parents=parents)
    for path in outputs:
        check_writable(path, force=force)
    loaded = load_named(experts, device, precision, trust_remote_code=trust_remote_code, native_tokens=True)
    domains = {}
    for name, domain_paths in paths.items():
        files = list(map(Path, domain_paths))
        strips = dict.fromkeys(files, FILTERS[filters[name][0]]) if name in filters else None
        domains[name] = read_corpus(files, strips).documents
    result = check_specialisation(loaded, domains, windows=windows, length=length, seed=seed, track=track)

    record = {
        **result.as_record(),
        "settings": {"windows": windows, "length": length, "seed": seed, "strip": filters},
        "data": {name: [Path(path).name for path in domain_paths] for name, domain_paths in paths.items()},
        "experts": {expert.spec.name: expert.spec.fingerprint for expert in loaded},
        "commit": commit(),
        "versions": versions(),
    }
    text = json_format.dumps(record, indent=2, allow_nan=False) + "\n"
    for path, content in zip(outputs, (text, as_markdown(result), None), strict=False):
        write_atomically(path, content.encode() if content else render(heat_map(result), "png"))
    if json is not None:
        write_document(json, text)
    show(result, messages if json == "-" else SafeConsole(highlight=False, markup=False))
    if not result.passed:
        raise typer.Exit(1)


def pairs(values: list[str], option: str) -> dict[str, list[str]]:
    """Parse NAME=VALUE options; a name may be repeated."""
    values_by_name: dict[str, list[str]] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise typer.BadParameter(f"expected NAME=VALUE, got {value!r}", param_hint=option)
        values_by_name.setdefault(name, []).append(rest)
    return values_by_name


def grids(result: "Check") -> dict[str, list[list[str]]]:
    """The tables by title: a header, then one row for each domain."""
    names = list(dict.fromkeys(cell.expert for cell in result.cells))

    def make_grid(value_of: "Callable[[Cell], Estimate]") -> list[list[str]]:
        grid = [["domain", *names]]
        for domain in result.counts:
            grid.append([domain, *(str(value_of(cell)) for cell in result.cells if cell.domain == domain)])
        return grid

    energies = make_grid(lambda cell: cell.energy)
    energies[0].append("margin")
    for row in energies[1:]:
        row.append(str(result.margins.get(row[0], "")))
    return {
        "Energy: loss in nats per byte, over all positions": energies,
        "Loss: nats per masked byte": make_grid(lambda cell: cell.per_hidden_byte),
        "Upper bound: bits per byte": make_grid(lambda cell: cell.bits_per_byte),
    }


def verdicts(result: "Check") -> list[str]:
    """Describe the results of the two checks."""
    return [
        f"each expert has its lowest energy on its own domain (row-wise): {'yes' if result.row_wise else 'no'}",
        f"each domain has its lowest energy with its own expert (column-wise): {'yes' if result.column_wise else 'no'}",
    ]


def as_markdown(result: "Check") -> str:
    """Format the tables and the verdicts as Markdown."""
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
    """Draw the energies as a heat map, one row for each domain; the expert of the domain is in bold."""
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
