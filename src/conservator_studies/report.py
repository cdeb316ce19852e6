"""Write RESULTS.md: all tables and figures of a folder of results, from the result files."""

import json
from pathlib import Path
from typing import Literal

from conservator.evaluation.tables import as_markdown
from conservator_studies import STUDIES
from conservator_studies.claims import check_claims
from conservator_studies.result import Record
from conservator_studies.study import load_study


def report(folder: Path) -> str:
    """Return the Markdown text for the results in ``folder``."""
    paths = {name: folder / f"{name}.json" for name in STUDIES}
    records: dict[str, Record] = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    parts = [header(records), claims(records), *(section(name, record) for name, record in records.items())]
    return "\n".join(part for part in parts if part)


def header(records: dict[str, Record]) -> str:
    """Describe the runs: preset, seed, time, commit and experts."""

    def distinct(key: Literal["preset", "seed", "commit"]) -> str:
        return ", ".join(sorted({str(record[key]) for record in records.values()}))

    minutes = sum(record["seconds"] for record in records.values()) / 60
    lines = [
        "# Results and the paper's values",
        "",
        "`conservator reproduce all` generates this file from the result files in this folder. A column named *paper* "
        "has the paper's values for the column on its left, from the table named below; a dot means that the paper has "
        "no value.",
        "",
        f"Preset {distinct('preset')}; seed {distinct('seed')}; {minutes:.0f} minutes in total; "
        f"commit {distinct('commit')}.",
    ]
    experts = {name: fingerprint for record in records.values() for name, fingerprint in record["experts"].items()}
    if experts:
        listed = ", ".join(f"{name} `{fingerprint[:12]}`" for name, fingerprint in sorted(experts.items()))
        lines += ["", f"Experts: {listed}."]
    return "\n".join(lines) + "\n"


def claims(records: dict[str, Record]) -> str:
    """Make the table of the paper's claims and our numbers."""
    checked = list(check_claims({name: record["rows"] for name, record in records.items()}))
    if not checked:
        return ""
    heading, alignment = ["claim", "holds", "numbers"], [":--"] * 3
    body = [[claim.text, "yes" if claim.holds else "**no**", claim.figures] for claim in checked]
    table = "".join(f"| {' | '.join(line)} |\n" for line in [heading, alignment, *body])
    return f"## Claims\n\n{table}"


def section(name: str, record: Record) -> str:
    """Make the section of a study: summary, tables, figures and conclusion."""
    study = load_study(name)
    size = f"{record['config'][study.unit]} {study.unit}"
    parts = [f"## {name}\n\n{STUDIES[name]}. {size}, {record['seconds'] / 60:.1f} minutes.\n"]
    for spec, lines in study.grids(record["rows"]):
        source = f"\nPaper: `{spec.source}`.\n" if spec.source else ""
        parts.append(as_markdown(spec.title, lines) + source)
    parts += [f"![{name}: {figure}]({figure}.png)\n" for figure in record["figures"]]
    conclusion = study.conclude(record["rows"])
    if conclusion:
        parts.append(f"{conclusion}\n")
    return "\n".join(parts)
