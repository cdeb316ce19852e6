"""The report: a record and the script that draws it, in one self-contained HTML file."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

Record = dict[str, Any]  # as conservator.results.as_record returns it

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="report">
<header class="masthead"><p class="brand">Conservator</p><h1>{title}</h1></header>
<main id="view"><noscript><p>This report needs JavaScript: allow scripts to see it.</p></noscript></main>
<script type="application/json" id="record">{record}</script>
<script>{script}</script>
</body>
</html>
"""
FRAME = '<iframe sandbox="allow-scripts" srcdoc="{page}" style="width:100%;height:36rem;border:0"></iframe>'


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("conservator.results") / name).read_text(encoding="utf-8")


def as_page(record: Record, title: str) -> str:
    """Return the report as HTML. The document is data that the script inserts as text, never markup."""
    script, style = asset("view.js") + "\nConservatorView.start();\n", asset("view.css")
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:; base-uri 'none'"
    )
    return TEMPLATE.format(
        policy=html.escape(policy),
        title=html.escape(title),
        style=style,
        script=script,
        record=_as_data(record),
    )


def as_frame(record: Record, title: str = "Restored document") -> str:
    """Return the report in an iframe, so that its script and style do not affect the page around it."""
    return FRAME.format(page=html.escape(as_page(record, title), quote=True))


def _as_data(record: Record) -> str:
    """Return the record as JSON, escaped so that it cannot end the HTML element that contains it."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _source(text: str) -> str:
    """Return the hash by which a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
