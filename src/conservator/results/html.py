"""The report: a record and the script that draws it, in one self-contained HTML file."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from conservator.results.record import Record
from conservator.results.validation import to_plain

if TYPE_CHECKING:
    from conservator.pages import Picture

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
{body}
</body>
</html>
"""
BODY = """<main id="view"><noscript><p>This report needs JavaScript: allow scripts to see it.</p></noscript></main>
<script type="application/json" id="record">{record}</script>
<script>{script}</script>"""
FRAME = '<iframe sandbox="allow-scripts" srcdoc="{page}" style="width:100%;height:36rem;border:0"></iframe>'


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("conservator.results") / name).read_text(encoding="utf-8")


def as_page(record: Record, title: str, pictures: "Sequence[Picture]" = ()) -> str:
    """Return the report as HTML. The document is data that the script inserts as text, never markup."""
    script = asset("view.js") + "\nConservatorView.start();\n"
    data = _as_data({**to_plain(record), **_picture_data(record, pictures)})
    return make_page(title, BODY.format(record=data, script=script), asset("view.css"), script)


def make_page(title: str, body: str, style: str, script: str = "") -> str:
    """Return an HTML page with a content security policy that allows only its style and its script.

    Args:
        title: Title of the page.
        body: HTML below the title; it contains the script.
        style: Style sheet.
        script: The script, which may also show pictures of the page; "" for none.
    """
    scripts = f"script-src {_source(script)}; " if script else ""
    pictures = "img-src data:; " if script else ""
    policy = f"default-src 'none'; {scripts}style-src {_source(style)}; {pictures}base-uri 'none'"
    return TEMPLATE.format(policy=html.escape(policy), title=html.escape(title), style=style, body=body)


def as_frame(record: Record, title: str = "Restored document") -> str:
    """Return the report in an iframe, so that its script and style do not affect the page around it."""
    return FRAME.format(page=html.escape(as_page(record, title), quote=True))


def _picture_data(record: Record, pictures: "Sequence[Picture]") -> dict[str, Any]:
    """Return pictures of lines as plain values; an empty object without pictures.

    Each picture has ``image`` (a data URI) and ``boxes``: index of an edit in the line -> the box around its words,
    ``[left, top, right, bottom]`` as fractions of the picture.
    """
    if not pictures:
        return {}
    origins = (piece.origin for piece in record.pieces if piece.origin is not None)
    indices = {origin: index for index, origin in enumerate(origins)}
    return {
        "pictures": [
            {
                "image": "data:image/png;base64," + base64.b64encode(picture.image).decode(),
                "boxes": {
                    str(indices[span]): [round(edge, 4) for edge in box]
                    for span, box in picture.boxes.items()
                    if span in indices
                },
            }
            for picture in pictures
        ]
    }


def _as_data(value: dict[str, Any]) -> str:
    """Return a value as JSON, escaped so that it cannot end the HTML element that contains it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _source(text: str) -> str:
    """Return the hash by which a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
