"""PDF documents: drawing of pages. Needs the extra ``scans``."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conservator.errors import ConservatorError
from conservator.pages.scans.images import IMAGES, check_pixels, check_scan

DPI = 300  # dots per inch: resolution of drawn pages, which Tesseract recommends [definition]
POINTS_PER_INCH = 72  # points per inch: unit of PDF [definition]
PASSWORD_ERROR = 4  # code: PDFium's error for a missing password [definition]
PDFIUM_LOCK = threading.RLock()  # PDFium is not thread-safe


@contextmanager
def open_pdf(data: bytes) -> Iterator[Any]:
    """Open a PDF document; other threads wait until it is closed."""
    if check_scan(data) != "pdf":
        raise ConservatorError("the file is not a PDF document")
    try:
        import pypdfium2
    except ImportError as error:
        raise ConservatorError(f"PDF documents need pypdfium2: pip install 'conservator[scans]' ({error})") from error
    with PDFIUM_LOCK:
        try:
            with pypdfium2.PdfDocument(data) as document:
                if len(document) > IMAGES.max_pages:
                    raise ConservatorError(
                        f"the file has {len(document)} pages, the limit is {IMAGES.max_pages}; split it"
                    )
                yield document
        except pypdfium2.PdfiumError as error:
            if error.err_code == PASSWORD_ERROR:
                raise ConservatorError(
                    "the PDF document is protected by a password; save it without a password"
                ) from error
            raise ConservatorError(f"the PDF document cannot be read: {error}") from error


def check_document(data: bytes) -> int:
    """Return the number of pages; raise an error if a PDF document cannot be opened or a page is too large."""
    with open_pdf(data) as document:
        for index in range(len(document)):
            _check_page_size(document.get_page_size(index), index)
        return len(document)


def draw_pages(data: bytes) -> Iterator[tuple[float, bytes]]:
    """Yield the fraction of pages drawn before, and each page as a grey PNG image with DPI dots per inch."""
    with open_pdf(data) as document:
        page_count = len(document)
    for index in range(page_count):
        yield index / page_count, draw_page(data, index)


def draw_page(data: bytes, index: int) -> bytes:
    """Draw a page as ``read_scan`` does: the boxes of its transcript are in pixels of this image."""
    with open_pdf(data) as document:
        if not 0 <= index < len(document):
            raise ConservatorError(f"the document has {len(document)} pages, page {index + 1} does not exist")
        page = document[index]
        _check_page_size(page.get_size(), index)
        png = io.BytesIO()
        page.render(scale=DPI / POINTS_PER_INCH, grayscale=True).to_pil().save(png, "PNG", dpi=(DPI, DPI))
        return png.getvalue()


def _check_page_size(size: tuple[float, float], index: int) -> None:
    """Raise an error if the image of a page would be too large; the size is in points."""
    check_pixels(size[0] * DPI / POINTS_PER_INCH, size[1] * DPI / POINTS_PER_INCH, index + 1)
