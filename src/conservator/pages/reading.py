"""Which format a file has, told by its content; and reading it."""

import re

from conservator.documents.file_types import name_file_type
from conservator.errors import ConservatorError, NotTextError
from conservator.pages.alto import read_alto
from conservator.pages.elements import Limits, UnreadableError
from conservator.pages.hocr import read_hocr
from conservator.pages.markup import HEAD, ORDERS, WIDE, Markup, read_html, read_xml
from conservator.pages.page_xml import read_page
from conservator.pages.transcript import Transcript
from conservator.pages.tsv import HEADER, ORDER, read_tsv

ACCEPTED = "hOCR, ALTO, PAGE and the TSV of Tesseract are read"
LIMITS = Limits()
ROOT = re.compile(rb"<(?:[^\s<>/!?:]+:)?([A-Za-z][\w.-]*)")
SKIPPED = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->|<![^>\[]*(?:\[.*?\])?[^>]*>", re.DOTALL)
FORMATS = {"alto": "ALTO", "pcgts": "PAGE", "html": "hOCR"}
# Roots of other files that people have beside these -> what such a file is.
STRANGERS = {
    "document": "a file of ABBYY FineReader or another program",
    "mets": "a METS file, which only names the files of its pages",
    "svg": "an SVG image",
    "tei": "a TEI document",
    "rss": "a news feed",
}
SIGN = re.compile(rb"""class\s*=\s*["']?[^"'>]{0,200}?\bocrx?_""", re.IGNORECASE)  # of hOCR


def name_format(data: bytes) -> str | None:
    """``hOCR``, ``ALTO``, ``PAGE`` or ``TSV``, by how a file begins; None if it is none of them."""
    if data.removeprefix(ORDER).startswith(HEADER.encode()):
        return "TSV"
    found = FORMATS.get(_root(data).lower())
    return found if found != "hOCR" or SIGN.search(_narrow(data)) else None


def read_pages(data: bytes, limits: Limits = LIMITS) -> Transcript:
    """Read a file that a reader of pages wrote; a file of another kind is refused, and named for what it is.

    Args:
        data: the bytes of the file.
        limits: how large it may be.
    """
    kind = name_file_type(data)
    if kind is not None:
        raise NotTextError(f"the file is {kind}; {ACCEPTED}")
    if len(data) > limits.size:
        raise ConservatorError(f"the file has {len(data):,} bytes; at most {limits.size:,} are accepted")
    found = name_format(data)
    if found == "TSV":
        return read_tsv(data, limits)
    if found == "ALTO":
        return read_alto(data, read_xml(data, limits))
    if found == "PAGE":
        return read_page(data, read_xml(data, limits))
    if found == "hOCR":
        return read_hocr(data, _read_web_page(data, limits))
    root = _root(data)
    if not root:
        raise ConservatorError(f"the file is neither XML nor HTML nor a table; {ACCEPTED}")
    if root.lower() == "html":
        raise ConservatorError(f"the file is HTML without the classes of hOCR; {ACCEPTED}")
    stranger = STRANGERS.get(root.lower(), "XML of another kind")
    raise ConservatorError(f"the file is {stranger}: its root is <{root}>; {ACCEPTED}")


def _read_web_page(data: bytes, limits: Limits) -> Markup:
    """Read HTML; a file that says that it is XML must be that."""
    if _narrow(data[:HEAD]).lstrip().startswith(b"<?xml"):
        return read_xml(data, limits)
    try:
        return read_xml(data, limits)
    except UnreadableError:
        return read_html(data, limits)


def _narrow(data: bytes) -> bytes:
    """The bytes of a file without a byte order mark, and without the zeros of UTF-16."""
    for order, _ in ORDERS:
        data = data.removeprefix(order)
    return data.replace(b"\0", b"") if data.startswith(tuple(begin for begin, _ in WIDE)) else data


def _root(data: bytes) -> str:
    """The name of the outermost element of markup, without its prefix; empty if there is none."""
    head, at = _narrow(data[: 2 * HEAD]), 0
    while (skipped := SKIPPED.match(head, at)) is not None:
        at = skipped.end()
    found = ROOT.match(head, at)
    return found[1].decode() if found else ""
