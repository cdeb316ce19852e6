"""The overview of a batch: one HTML file without scripts, sorted by need for review."""

import html
from itertools import islice
from typing import Any, BinaryIO

from conservator.batch.engine import COPIED, RESTORED, DocumentResult
from conservator.batch.ledger import Ledger
from conservator.batch.totals import Totals, sum_results
from conservator.results.html import asset, make_page

OVERVIEW = "overview.html"
MAX_ROWS = 500  # documents: listed in the overview [untuned]
MAX_WEIGHTS = 3  # experts: listed for each document [untuned]
MIN_WEIGHT = 0.005  # probability: smaller weights would be displayed as 0 % [definition]
# SQL order: copied documents, then documents with notices, then those with the largest number of expected errors and
# unfilled positions. The columns have the names of the ledger.
WORST_FIRST = (
    "(documents.outcome IS NULL OR (documents.outcome = 'copied' AND NOT documents.binary)) DESC, "
    "documents.notices != '{}' DESC, "
    "documents.left_open + documents.restored * (1 - coalesce(documents.expected, 1)) DESC, targets.rowid, number"
)
STYLE = """
.cards { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); }
.list { overflow-x: auto; padding: 0 .95rem .6rem; }
.list table { width: 100%; border-collapse: collapse; font-size: .84rem; }
.list th { padding: .45rem .6rem .3rem 0; color: var(--soft); font-size: .76rem; text-align: left; }
.list td { padding: .3rem .6rem .3rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.list td:first-child { min-width: 14rem; } .list td:nth-child(9) { min-width: 11rem; }
.list .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.list .copied { color: var(--poor); } .note { color: var(--soft); font-size: .84rem; }
"""
BODY = """<main>
<dl class="cards">{cards}</dl>
<section class="panel"><header><h2>{heading}</h2></header><div class="list">
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div></section>
</main>"""
NUMERIC = "value"  # class of the cells of a column of numbers
HEAD = {"document": "", "outcome": ""}  # title of a column -> class of its cells
HEAD |= dict.fromkeys(("bytes", "lost", "restored", "confident", "unfilled", "expected accuracy"), NUMERIC)
HEAD |= {"expert weights": "", "seconds": NUMERIC}


def write_overview(handle: BinaryIO, ledger: Ledger) -> None:
    """Write the overview."""
    totals = sum_results(ledger.rows())
    rows = [_row(row) for row in islice(ledger.rows(WORST_FIRST), MAX_ROWS)]
    documents = totals.documents + totals.excluded
    heading = "All documents, by need for review"
    if documents > MAX_ROWS:
        heading = f"{MAX_ROWS} of {documents} documents, by need for review"
    body = BODY.format(
        cards="".join(f"<div class='card'><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _cards(totals)),
        heading=heading,
        head="".join(f"<th class='{kind}'>{title}</th>" for title, kind in HEAD.items()),
        rows="\n".join(rows),
    )
    handle.write(make_page(f"Batch: {totals.documents} documents", body, asset("view.css") + STYLE).encode())


def _cards(totals: Totals) -> list[tuple[str, str]]:
    expected = "·" if totals.expected_accuracy is None else f"{100 * totals.expected_accuracy:.1f} %"
    cards = [
        ("restored documents", f"{totals.outcomes[RESTORED]}<small>of {totals.documents}</small>"),
        ("copied documents", f"{totals.copied}<small>could not be restored</small>"),
        ("lost", f"{totals.lost:,}<small>bytes or characters</small>"),
        ("restored", f"{totals.restored:,}<small>{totals.confident:,} with confidence of at least 90 %</small>"),
        ("unfilled", f"{totals.unfilled:,}<small>left as they were</small>"),
        ("expected accuracy", f"{expected}<small>of the restored ones</small>"),
    ]
    if totals.converted:
        cards.append(("encoding changed", f"{totals.converted.total():,}<small>documents</small>"))
    for kind, number in totals.notices.most_common():
        cards.append((html.escape(kind.replace("_", " ")), f"{number:,}<small>documents</small>"))
    return cards


def _row(row: dict[str, Any]) -> str:
    result: DocumentResult = row["result"]
    outcome = "skipped" if result.binary else result.outcome
    if result.encoding != result.written:
        outcome += f", read as {result.encoding}, written as {result.written}"
    reason = f": {result.reason}" if result.reason else ""
    notices = "".join(f"; {kind.replace('_', ' ')}: {message}" for kind, message in result.notices.items())
    largest = sorted(result.weights.items(), key=lambda item: -item[1])[:MAX_WEIGHTS]
    weights = ", ".join(f"{name} {100 * weight:.0f}\u00a0%" for name, weight in largest if weight >= MIN_WEIGHT)
    expected = "" if result.expected_accuracy is None else f"{100 * result.expected_accuracy:.1f} %"
    counts = (row["bytes"], result.lost, result.restored, result.confident, result.unfilled)
    cells: list[tuple[str, object]] = [
        ("", row["document"]),
        ("copied" if result.outcome == COPIED and not result.binary else "", outcome + reason + notices),
        *(("value", f"{count:,}") for count in counts),
        ("value", expected),
        ("", weights),
        ("value", f"{result.seconds:.1f}"),
    ]
    return "<tr>" + "".join(f"<td class='{kind}'>{html.escape(str(text))}</td>" for kind, text in cells) + "</tr>"
