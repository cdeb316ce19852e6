"""PDF documents: their pages as pictures, and the text that stands behind the pictures. Needs the extra ``scans``."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conservator.errors import ConservatorError
from conservator.pages.images import PAGES, check_pixels, check_scan, encode_png

DPI = 300  # what Tesseract was made for
INCH = 72  # units of PDF
HYPHEN = "\x02"  # PDFium's sign for a hyphen and the line end behind it
PASSWORD = 4  # PDFium's number of the error
LOCK = threading.RLock()  # PDFium is not made for several threads


@contextmanager
def open_pdf(data: bytes) -> Iterator[Any]:
    """A PDF document; while it is open, no other thread has one open."""
    if check_scan(data) != "pdf":
        raise ConservatorError("the file is not a PDF document")
    try:
        import pypdfium2
    except ImportError as error:
        raise ConservatorError(f"PDF documents need pypdfium2: pip install 'conservator[scans]' ({error})") from error
    with LOCK:
        try:
            with pypdfium2.PdfDocument(data) as document:
                if len(document) > PAGES:
                    raise ConservatorError(f"the file has {len(document)} pages; at most {PAGES} are accepted; part it")
                yield document
        except pypdfium2.PdfiumError as error:
            if error.err_code == PASSWORD:
                raise ConservatorError("the PDF document is locked by a password; save it without one") from error
            raise ConservatorError(f"the PDF document cannot be read: {error}") from error


def check_document(data: bytes) -> int:
    """Return the number of pages; refuse a PDF document that cannot be opened or has a page that is too large."""
    with open_pdf(data) as document:
        for number in range(len(document)):
            _check_size(document.get_page_size(number), number)
        return len(document)


def draw_pages(data: bytes) -> Iterator[tuple[float, bytes]]:
    """The pages of a document as grey PNG images of DPI dots an inch, each with the share of pages before it."""
    with open_pdf(data) as document:
        count = len(document)
    for number in range(count):
        yield number / count, draw_page(data, number)


def draw_page(data: bytes, number: int) -> bytes:
    """A page of a document, from 0, as ``read_scan`` reads it: boxes of its transcript are in pixels of this image."""
    with open_pdf(data) as document:
        if not 0 <= number < len(document):
            raise ConservatorError(f"there is no page {number + 1} in the document; it has {len(document)}")
        page = document[number]
        _check_size(page.get_size(), number)
        return encode_png(page.render(scale=DPI / INCH, grayscale=True).to_pil(), DPI)


def _check_size(size: tuple[float, float], number: int) -> None:
    """Refuse a page, numbered from 0, whose drawing would be too large; its size is in units of PDF."""
    check_pixels(size[0] * DPI / INCH, size[1] * DPI / INCH, number + 1)


def text_layer(data: bytes) -> str:
    """The text behind the pages of a PDF document, such as an OCR engine put there; empty if there is none.

    Lines end with a newline; an empty line stands between pages that have text.
    """
    with open_pdf(data) as document:
        pages = [document[number].get_textpage().get_text_bounded() for number in range(len(document))]
    parted = [page.replace(HYPHEN, "-\n") for page in pages]
    texts = ["\n".join(line.rstrip() for line in page.splitlines()).strip("\n") for page in parted]
    return "\n".join(text + "\n" for text in texts if text)
