"""Pictures of pages, and PDF documents, read by the installed Tesseract."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from html import escape

from conservator.errors import ConservatorError
from conservator.pages.elements import Limits
from conservator.pages.images import check_images, check_scan
from conservator.pages.pdf import check_document, draw_pages
from conservator.pages.reading import read_pages
from conservator.pages.tesseract import LAYOUTS, find_tesseract
from conservator.pages.transcript import Transcript

SECONDS = 600.0  # for a page
LIMITS = Limits(size=2**28, elements=4_000_000)  # about two hundred pages with the readings of every character
STAGE = "reading"
IMAGE = re.compile(rb"""(?<=title=')image "stdin"(?=;)""")
PLACE = re.compile(rb"(?P<id>\sid='[a-z_]+?_)1(?=[_'])|(?P<page>; ppageno )0(?=[;'])")  # of the only page of a file
BODY = re.compile(rb"(.*?<body>)(.*)(</body>.*)", re.DOTALL)


def read_scan(
    data: bytes,
    *,
    language: str = "eng",
    layout: str = "auto",
    symbols: bool = True,
    name: str = "",
    progress: Callable[[str, float], None] | None = None,
) -> Transcript:
    """Read an image, all images of a TIFF file, or the pages of a PDF document, which are drawn at 300 dots an inch.

    A text that a PDF document has already is not looked at; ``text_layer`` gives it.

    Args:
        data: the bytes of the file.
        language: of the text, by Tesseract's names; several with ``+`` between them.
        layout: ``auto``, ``column`` for a single column, ``block`` for lines that go across the page, such as code.
        symbols: whether every character has its confidence and other readings; else only words have confidences.
        name: of the file, as the hOCR names its image.
        progress: called with what is done and its share from 0 to 1; an exception that it raises ends the work.

    Returns:
        The transcript; its ``data`` is hOCR, in pixels of the image or of the drawn page.
    """
    kind = check_scan(data)
    if layout not in LAYOUTS:
        raise ConservatorError(f"the layout {layout!r}; {', '.join(LAYOUTS)} are accepted")
    # The file is checked before Tesseract is needed, so that a broken file gives the same error on every machine.
    count = check_document(data) if kind == "pdf" else check_images(data)
    tesseract = find_tesseract()
    tesseract.check_language(language)
    report = progress or (lambda stage, share: None)

    def read(image: bytes, pages: int = 1) -> bytes:
        found = tesseract.read(image, language, layout=layout, symbols=symbols, seconds=SECONDS * pages)
        named = b'image "' + escape(name.replace('"', "'")).encode() + b'"'
        return IMAGE.sub(lambda _: named, found)

    def read_each(images: Iterable[tuple[float, bytes]]) -> Iterator[bytes]:
        for share, image in images:
            report(STAGE, share)
            yield read(image)

    report(STAGE, 0.0)
    hocr = join_pages(read_each(draw_pages(data))) if kind == "pdf" else read(data, count)
    report(STAGE, 1.0)
    return read_pages(hocr, LIMITS)


def join_pages(files: Iterable[bytes]) -> bytes:
    """One file of hOCR from Tesseract's files of one page each, with the ids that Tesseract gives to pages of one."""
    begin, bodies, end = b"", [], b""
    for number, file in enumerate(files):
        found = BODY.fullmatch(file)
        if found is None:
            raise ConservatorError(f"Tesseract wrote no hOCR for page {number + 1}")
        begin, end = begin or found[1], found[3]
        bodies.append(PLACE.sub(partial(_placed, number), found[2]).rstrip(b" "))
    return begin + b"".join(bodies) + b" " + end


def _placed(number: int, place: re.Match[bytes]) -> bytes:
    """An id or a number of a page, on the page of that number, from 0."""
    return place["id"] + b"%d" % (number + 1) if place["id"] else place["page"] + b"%d" % number
