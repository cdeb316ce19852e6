"""OCR of images and PDF documents by the installed Tesseract."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape

from conservator.errors import ConservatorError
from conservator.pages.markup.elements import FileLimits
from conservator.pages.reading import read_pages
from conservator.pages.scans.images import check_images, check_scan
from conservator.pages.scans.pdf import check_document, draw_pages
from conservator.pages.scans.tesseract import LAYOUTS, find_tesseract
from conservator.pages.transcript import Transcript

# Limits of the hOCR of a scan: about two hundred pages with the alternatives of every character.
HOCR_LIMITS = FileLimits(max_bytes=2**28, max_elements=4_000_000)
STAGE = "reading"  # name of this stage in progress reports
IMAGE_NAME = re.compile(rb"""(?<=title=')image "stdin"(?=;)""")
PAGE_NUMBER = re.compile(rb"(?P<id>\sid='[a-z_]+?_)1(?=[_'])|(?P<page>; ppageno )0(?=[;'])")
BODY = re.compile(rb"(.*?<body>)(.*)(</body>.*)", re.DOTALL)


@dataclass(frozen=True)
class ScanConfig:
    """Limits of OCR."""

    max_page_seconds: float = 600.0  # seconds: time limit of Tesseract per page [safety limit]


CONFIG = ScanConfig()


def read_scan(
    data: bytes,
    *,
    language: str = "eng",
    layout: str = "auto",
    name: str = "",
    progress: Callable[[str, float], None] | None = None,
) -> Transcript:
    """Run OCR on an image, on all images of a TIFF file, or on the pages of a PDF document at 300 dpi.

    Text that a PDF document already contains is ignored.

    Args:
        data: bytes of the file.
        language: Tesseract's name of the language; several are joined with ``+``.
        layout: ``auto``, ``column`` for a single column, ``block`` for lines across the page, such as code.
        name: name of the file, which the hOCR gives as the name of the image.
        progress: called with the stage and the fraction done, from 0 to 1; an exception that it raises stops the OCR.

    Returns:
        The transcript; its ``data`` is hOCR, with boxes in pixels of the image or of the drawn page.
    """
    kind = check_scan(data)
    if layout not in LAYOUTS:
        raise ConservatorError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    # Check the file before looking for Tesseract, so that a broken file gives the same error on every machine.
    page_count = check_document(data) if kind == "pdf" else check_images(data)
    tesseract = find_tesseract()
    tesseract.check_language(language)
    report = progress or (lambda stage, share: None)

    def read(image: bytes, pages: int = 1) -> bytes:
        hocr = tesseract.read(image, language, layout=layout, max_seconds=CONFIG.max_page_seconds * pages)
        image_name = b'image "' + escape(name.replace('"', "'")).encode() + b'"'
        return IMAGE_NAME.sub(lambda _: image_name, hocr)

    def read_each(images: Iterable[tuple[float, bytes]]) -> Iterator[bytes]:
        for share, image in images:
            report(STAGE, share)
            yield read(image)

    report(STAGE, 0.0)
    hocr = join_pages(read_each(draw_pages(data))) if kind == "pdf" else read(data, page_count)
    report(STAGE, 1.0)
    return read_pages(hocr, HOCR_LIMITS)


def join_pages(files: Iterable[bytes]) -> bytes:
    """Join hOCR files of Tesseract with one page each; identifiers are those of a Tesseract file with all pages."""
    start, bodies, end = b"", [], b""
    for index, file in enumerate(files):
        match = BODY.fullmatch(file)
        if match is None:
            raise ConservatorError(f"Tesseract did not write hOCR for page {index + 1}")
        start, end = start or match[1], match[3]
        bodies.append(PAGE_NUMBER.sub(partial(_renumber, index), match[2]).rstrip(b" "))
    return start + b"".join(bodies) + b" " + end


def _renumber(index: int, match: re.Match[bytes]) -> bytes:
    """Return an identifier or a page number of the first page, changed to those of page ``index``."""
    return match["id"] + b"%d" % (index + 1) if match["id"] else match["page"] + b"%d" % index
