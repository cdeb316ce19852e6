"""Pictures of corrected lines for the report of ``conservator restore``."""

from functools import partial
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from conservator.cli.console import messages
from conservator.errors import ConservatorError
from conservator.system.files import read_document

if TYPE_CHECKING:
    from conservator.document import Document
    from conservator.pages import Picture
    from conservator.results import Restoration


def picture_edits(document: "Document", restoration: "Restoration", damaged: str) -> "list[Picture]":
    """Crop pictures of the corrected lines, lowest confidence first, if the image of the page is available.

    Only OCR files and scans have pictures. ``damaged`` is the name of the input file.
    """
    from conservator.pages import Picture, picture_lines

    if document.transcript is None:
        return []
    edits = dict(zip(document.character_spans(restoration), restoration.edits, strict=True))
    spans = sorted(edits, key=lambda span: edits[span].probability)
    try:
        pictures = picture_lines(document.transcript, spans, partial(find_image, document, damaged))
    except ConservatorError as error:
        messages.print(f"the report has no pictures of lines: {error}", soft_wrap=True)
        return []
    return [
        Picture(picture.image, {edits[span].span: box for span, box in picture.boxes.items()}) for picture in pictures
    ]


def find_image(document: "Document", damaged: str, number: int) -> tuple[bytes, int] | None:
    """Find the image of a page: the scan itself, or an image next to the OCR file that the file names.

    Only the file name is used, not the folder: the OCR file may come from an untrusted source.

    Returns:
        The bytes of the image and the number of the page in it; None if there is no image.
    """
    from conservator.pages import detect_scan_format, draw_page

    image, image_page = document.source, number
    if detect_scan_format(image) is None and document.transcript is not None:
        pages = document.transcript.pages
        named = pages[number].image
        name = PureWindowsPath(named or "").name  # splits at slashes and backslashes
        path = Path(damaged).parent / name
        if damaged == "-" or not name or not path.is_file():
            return None
        image = read_document(str(path))
        image_page = sum(page.image == named for page in pages[:number])
    kind = detect_scan_format(image)
    if kind == "pdf":
        return draw_page(image, image_page), 0
    return None if kind is None else (image, image_page if kind == "tiff" else 0)
