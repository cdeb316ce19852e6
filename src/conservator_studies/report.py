"""RESULTS.md: all tables and figures of a folder of results, from the result files alone."""

import json
from pathlib import Path
from typing import Literal

from conservator.evaluation.tables import as_markdown
from conservator_studies import STUDIES
from conservator_studies.claims import check_claims
from conservator_studies.result import Record
from conservator_studies.study import load_study


def report(folder: Path) -> str:
    """The Markdown text for the results in ``folder``."""
    paths = {name: folder / f"{name}.json" for name in STUDIES}
    records: dict[str, Record] = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    parts = [header(records), claims(records), *(section(name, record) for name, record in records.items())]
    return "\n".join(part for part in parts if part)


def header(records: dict[str, Record]) -> str:
    """How the results were made."""

    def found(key: Literal["preset", "seed", "commit"]) -> str:
        return ", ".join(sorted({str(record[key]) for record in records.values()}))

    minutes = sum(record["seconds"] for record in records.values()) / 60
    lines = [
        "# Results beside the paper's",
        "",
        "Written by `conservator reproduce all` from the result files beside it, never by hand. A column named *paper* "
        "repeats the paper's figures for the column before it, from the table that is named below; a dot means none.",
        "",
        f"Preset {found('preset')}; seed {found('seed')}; {minutes:.0f} minutes in all; code at {found('commit')}.",
    ]
    experts = {name: one for record in records.values() for name, one in record["experts"].items()}
    if experts:
        lines += ["", "Experts: " + ", ".join(f"{name} `{one[:12]}`" for name, one in sorted(experts.items())) + "."]
    return "\n".join(lines) + "\n"


def claims(records: dict[str, Record]) -> str:
    """The paper's claims, compared with our figures."""
    judged = list(check_claims({name: record["rows"] for name, record in records.items()}))
    if not judged:
        return ""
    lines = [["claim", "holds", "figures"], *([c.text, "yes" if c.holds else "**no**", c.figures] for c in judged)]
    rule = [":--"] * 3
    table = "".join(f"| {' | '.join(line)} |\n" for line in [lines[0], rule, *lines[1:]])
    return f"## Claims\n\n{table}"


def section(name: str, record: Record) -> str:
    """A study: what it shows, its tables, its figures and its conclusion."""
    study = load_study(name)
    size = f"{record['config'][study.unit]} {study.unit}"
    parts = [f"## {name}\n\n{STUDIES[name].summary}. {size}, {record['seconds'] / 60:.1f} minutes.\n"]
    for spec, lines in study.grids(record["rows"]):
        source = f"\nThe paper's: `{spec.source}`.\n" if spec.source else ""
        parts.append(as_markdown(spec.title, lines) + source)
    parts += [f"![{name}: {figure}]({figure}.png)\n" for figure in record["figures"]]
    conclusion = study.conclude(record["rows"])
    if conclusion:
        parts.append(f"{conclusion}\n")
    return "\n".join(parts)
