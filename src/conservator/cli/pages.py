"""OCR files and scans in ``conservator restore``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from conservator.cli.console import messages
from conservator.errors import ConservatorError
from conservator.system.files import read_document

if TYPE_CHECKING:
    from conservator.channels import OcrConfidence
    from conservator.pages import Picture, Transcript
    from conservator.results import Restoration


def is_pages(data: bytes) -> bool:
    """Whether a file is an OCR file or a scan."""
    from conservator.pages import detect_ocr_format, detect_scan_format

    return detect_scan_format(data) is not None or detect_ocr_format(data) is not None


def read_any(data: bytes, name: str, language: str, progress: Callable[[str, float], None]) -> "Transcript":
    """Read an OCR file, or run Tesseract on a scan."""
    from conservator.pages import detect_scan_format, read_pages, read_scan

    try:
        if detect_scan_format(data) is None:
            return read_pages(data)
        return read_scan(data, language=language, name=name, progress=lambda _, share: progress("scan", share))
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error


def ocr_confidence_in(transcript: "Transcript") -> "OcrConfidence | None":
    """The OCR confidence of each character of a transcript; None if the file has none."""
    from conservator.pages import ocr_confidence_of

    return ocr_confidence_of(transcript)


def write_pages(transcript: "Transcript", restoration: "Restoration", out: str) -> bytes:
    """Write the OCR file with corrected words, their confidence and the original words.

    If ``out`` is a .txt file, write only the text, with the indentation of the page.
    """
    if Path(out).suffix == ".txt":
        from conservator.pages import add_indentation

        return add_indentation(transcript, restoration.text).encode()
    messages.print(f"written as {transcript.format}; use -o NAME.txt to write only the text", soft_wrap=True)
    changes = transcript.word_changes(
        (change.start, change.stop, change.text, change.probability) for change in restoration.changes
    )
    return transcript.apply_changes(changes)


def picture_changes(transcript: "Transcript", restoration: "Restoration", damaged: str, data: bytes) -> "list[Picture]":
    """Crop pictures of the changed lines, lowest confidence first, if the image of the page is available.

    Args:
        transcript: the OCR text.
        restoration: the corrected text.
        damaged: the name of the input file.
        data: the bytes of the input file.
    """
    from conservator.pages import picture_lines

    changes = sorted(restoration.changes, key=lambda change: change.probability)
    try:
        return picture_lines(
            transcript,
            [(change.start, change.stop) for change in changes],
            partial(find_image, transcript, damaged, data),
        )
    except ConservatorError as error:
        messages.print(f"the report has no pictures of lines: {error}", soft_wrap=True)
        return []


def find_image(transcript: "Transcript", damaged: str, data: bytes, number: int) -> tuple[bytes, int] | None:
    """Find the image of a page: the scan itself, or an image next to the OCR file that the file names.

    Only the file name is used, not the folder: the OCR file may come from an untrusted source.

    Args:
        transcript: the OCR text.
        damaged: the name of the input file.
        data: the bytes of the input file.
        number: the number of the page.

    Returns:
        The bytes of the image and the number of the page in it; None if there is no image.
    """
    from conservator.pages import detect_scan_format, draw_page

    image, image_page = data, number
    if detect_scan_format(data) is None:
        named = transcript.pages[number].image
        name = PureWindowsPath(named or "").name  # splits at slashes and backslashes
        path = Path(damaged).parent / name
        if damaged == "-" or not name or not path.is_file():
            return None
        image = read_document(str(path))
        image_page = sum(page.image == named for page in transcript.pages[:number])
    kind = detect_scan_format(image)
    if kind == "pdf":
        return draw_page(image, image_page), 0
    return None if kind is None else (image, image_page if kind == "tiff" else 0)
