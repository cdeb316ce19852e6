"""Detection of the format of an OCR file by its content, and reading of all formats."""

import re

from conservator.documents.file_types import name_file_type
from conservator.errors import ConservatorError, NotTextError
from conservator.pages.formats.alto import read_alto
from conservator.pages.formats.hocr import read_hocr
from conservator.pages.formats.page_xml import read_page_xml
from conservator.pages.formats.tsv import HEADER, UTF8_BYTE_ORDER_MARK, read_tsv
from conservator.pages.markup.elements import FileLimits, UnreadableError
from conservator.pages.markup.parsing import BYTE_ORDER_MARKS, HEAD_BYTES, UTF16_STARTS, Markup, read_html, read_xml
from conservator.pages.transcript import Transcript

ACCEPTED = "accepted OCR files are hOCR, ALTO, PAGE and TSV of Tesseract"
DEFAULT_LIMITS = FileLimits()
ROOT_NAME = re.compile(rb"<(?:[^\s<>/!?:]+:)?([A-Za-z][\w.-]*)")
PROLOG = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->|<![^>\[]*(?:\[.*?\])?[^>]*>", re.DOTALL)
FORMATS = {"alto": "ALTO", "pcgts": "PAGE", "html": "hOCR"}
# Root elements of other files that are often stored with OCR files, and descriptions of these files.
OTHER_ROOTS = {
    "document": "a file of ABBYY FineReader or another program",
    "mets": "a METS file, which only names the files of its pages",
    "svg": "an SVG image",
    "tei": "a TEI document",
    "rss": "a news feed",
}
HOCR_CLASS = re.compile(rb"""class\s*=\s*["']?[^"'>]{0,200}?\bocrx?_""", re.IGNORECASE)


def detect_ocr_format(data: bytes) -> str | None:
    """Return ``hOCR``, ``ALTO``, ``PAGE`` or ``TSV``, by the start of a file; None for any other file."""
    if data.removeprefix(UTF8_BYTE_ORDER_MARK).startswith(HEADER.encode()):
        return "TSV"
    name = FORMATS.get(root_name(data).lower())
    return name if name != "hOCR" or HOCR_CLASS.search(_as_single_bytes(data)) else None


def read_pages(data: bytes, limits: FileLimits = DEFAULT_LIMITS) -> Transcript:
    """Read an OCR file. For any other file, the error names its type.

    Args:
        data: bytes of the file.
        limits: size limits.
    """
    file_type = name_file_type(data)
    if file_type is not None:
        raise NotTextError(f"the file is {file_type}; {ACCEPTED}")
    limits.check_size(data)
    name = detect_ocr_format(data)
    if name == "TSV":
        return read_tsv(data, limits)
    if name == "ALTO":
        return read_alto(data, read_xml(data, limits))
    if name == "PAGE":
        return read_page_xml(data, read_xml(data, limits))
    if name == "hOCR":
        return read_hocr(data, _read_html_or_xml(data, limits))
    root = root_name(data)
    if not root:
        raise ConservatorError(f"the file is not XML, HTML or a table of Tesseract; {ACCEPTED}")
    if root.lower() == "html":
        raise ConservatorError(f"the file is HTML without the classes of hOCR; {ACCEPTED}")
    description = OTHER_ROOTS.get(root.lower(), "XML in another format")
    raise ConservatorError(f"the file is {description}: its root is <{root}>; {ACCEPTED}")


def _read_html_or_xml(data: bytes, limits: FileLimits) -> Markup:
    """Parse HTML; a file with an XML declaration must be well-formed XML."""
    try:
        return read_xml(data, limits)
    except UnreadableError:
        if _as_single_bytes(data[:HEAD_BYTES]).lstrip().startswith(b"<?xml"):
            raise
        return read_html(data, limits)


def _as_single_bytes(data: bytes) -> bytes:
    """Remove the byte order mark, and the zero bytes of UTF-16."""
    for byte_order_mark, _ in BYTE_ORDER_MARKS:
        data = data.removeprefix(byte_order_mark)
    return data.replace(b"\0", b"") if data.startswith(tuple(start for start, _ in UTF16_STARTS)) else data


def root_name(data: bytes) -> str:
    """Return the name of the root element without its prefix; empty if there is none."""
    head, offset = _as_single_bytes(data[: 2 * HEAD_BYTES]), 0
    while (prolog := PROLOG.match(head, offset)) is not None:
        offset = prolog.end()
    root = ROOT_NAME.match(head, offset)
    return root[1].decode() if root else ""
