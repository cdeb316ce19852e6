"""The overview of a batch: one HTML file without scripts, the documents with most doubt first."""

import base64
import hashlib
import html
from itertools import islice
from typing import Any, BinaryIO

from conservator.batch.engine import COPIED, RESTORED, DocumentResult
from conservator.batch.ledger import Ledger
from conservator.batch.totals import Totals, sum_up
from conservator.results.html import asset

OVERVIEW = "overview.html"
SHOWN = 500  # documents in the overview
# Documents that were copied, then those with notices, then those of which most is likely to be wrong or is left open.
WORST = (
    "(documents.outcome IS NULL OR (documents.outcome = 'copied' AND NOT documents.binary)) DESC, "
    "documents.notices != '{}' DESC, "
    "documents.left_open + documents.restored * (1 - coalesce(documents.expected, 1)) DESC, present.rowid, number"
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
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {source}; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Batch: {documents} documents</title>
<style>{style}</style>
</head>
<body class="report">
<header class="masthead"><p class="brand">Conservator</p><h1>Batch: {documents} documents</h1></header>
<main>
<dl class="cards">{cards}</dl>
<section class="panel"><header><h2>{heading}</h2></header><div class="list">
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div></section>
</main>
</body>
</html>
"""
HEAD = ("document", "outcome", "bytes", "lost", "restored", "sure", "left open", "likely right", "trusted there", "s")


def write_overview(handle: BinaryIO, ledger: Ledger) -> None:
    """Write the overview."""
    totals = sum_up(ledger.rows())
    rows = [_row(one) for one in islice(ledger.rows(WORST), SHOWN)]
    style = asset("view.css") + STYLE
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    number = totals.documents + totals.left_out
    heading = "All documents, the worst first" if number <= SHOWN else f"The worst {SHOWN} of {number} documents"
    text = TEMPLATE.format(
        source=html.escape(f"'sha256-{hashed}'"),
        documents=totals.documents,
        style=style,
        cards="".join(f"<div class='card'><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _cards(totals)),
        heading=heading,
        head="".join(
            f"<th class='{'value' if 1 < place < 8 or place == 9 else ''}'>{one}</th>" for place, one in enumerate(HEAD)
        ),
        rows="\n".join(rows),
    )
    handle.write(text.encode())


def _cards(totals: Totals) -> list[tuple[str, str]]:
    expected = "·" if totals.expected is None else f"{100 * totals.expected:.1f} %"
    cards = [
        ("restored", f"{totals.outcomes[RESTORED]}<small>of {totals.documents} documents</small>"),
        ("copied", f"{totals.copied}<small>could not be restored</small>"),
        ("lost", f"{totals.lost:,}<small>bytes or characters</small>"),
        ("filled in", f"{totals.restored:,}<small>{totals.confident:,} at least 90 % sure</small>"),
        ("left open", f"{totals.left_open:,}"),
        ("should be right", f"{expected}<small>of what was filled in</small>"),
    ]
    if totals.converted:
        cards.append(("encoding changed", f"{totals.converted.total():,}<small>documents</small>"))
    for kind, number in totals.notices.most_common():
        cards.append((html.escape(kind.replace("_", " ")), f"{number:,}<small>documents</small>"))
    return cards


def _row(row: dict[str, Any]) -> str:
    done: DocumentResult = row["done"]
    outcome = "left out" if done.binary else done.outcome
    if done.encoding != done.written:
        outcome += f", read as {done.encoding}, written as {done.written}"
    reason = f": {done.reason}" if done.reason else ""
    notices = "".join(f"; {kind.replace('_', ' ')}: {message}" for kind, message in done.notices.items())
    shares = sorted(done.shares.items(), key=lambda one: -one[1])[:3]
    with_confidence = ", ".join(f"{name} {100 * share:.0f}\u00a0%" for name, share in shares if share >= 0.005)
    expected = "" if done.expected is None else f"{100 * done.expected:.1f} %"
    cells: list[tuple[str, object]] = [
        ("", row["document"]),
        ("copied" if done.outcome == COPIED and not done.binary else "", outcome + reason + notices),
        *(("value", f"{one:,}") for one in (row["bytes"], done.lost, done.restored, done.confident, done.left_open)),
        ("value", expected),
        ("", with_confidence),
        ("value", f"{done.seconds:.1f}"),
    ]
    return "<tr>" + "".join(f"<td class='{kind}'>{html.escape(str(text))}</td>" for kind, text in cells) + "</tr>"
