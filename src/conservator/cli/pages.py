"""Files of OCR engines and pictures of pages, as ``conservator restore`` takes and writes them."""

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
    """Whether a file is of an OCR engine, or a picture of pages."""
    from conservator.pages import detect_ocr_format, detect_scan_format

    return detect_scan_format(data) is not None or detect_ocr_format(data) is not None


def read_any(data: bytes, name: str, language: str, progress: Callable[[str, float], None]) -> "Transcript":
    """The transcript in a file of an OCR engine, or what Tesseract reads in a picture."""
    from conservator.pages import detect_scan_format, read_pages, read_scan

    try:
        if detect_scan_format(data) is None:
            return read_pages(data)
        return read_scan(data, language=language, name=name, progress=lambda _, share: progress("scan", share))
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error


def ocr_confidence_in(transcript: "Transcript") -> "OcrConfidence | None":
    """What the reader said of each character of a transcript."""
    from conservator.pages import ocr_confidence_of

    return ocr_confidence_of(transcript)


def write_pages(transcript: "Transcript", found: "Restoration", out: str) -> bytes:
    """The file with corrected words, their confidence and their originals.

    The text alone if it goes to a .txt file, with indentation if pages show it.
    """
    if Path(out).suffix == ".txt":
        from conservator.pages import add_indentation

        return add_indentation(transcript, found.text).encode()
    messages.print(f"written as {transcript.format}; -o NAME.txt gives the text alone", soft_wrap=True)
    changes = transcript.word_changes((one.start, one.stop, one.text, one.probability) for one in found.changes)
    return transcript.apply_changes(changes)


def picture_changes(transcript: "Transcript", found: "Restoration", damaged: str, data: bytes) -> "list[Picture]":
    """Pictures of the lines that were changed, the least sure first, where the image of the page is at hand.

    Args:
        transcript: of the pages.
        found: its correction.
        damaged: the name of the file.
        data: its bytes.
    """
    from conservator.pages import picture_lines

    uncertain = sorted(found.changes, key=lambda one: one.probability)
    try:
        return picture_lines(
            transcript, [(one.start, one.stop) for one in uncertain], partial(find_image, transcript, damaged, data)
        )
    except ConservatorError as error:
        messages.print(f"no pictures of lines: {error}", soft_wrap=True)
        return []


def find_image(transcript: "Transcript", damaged: str, data: bytes, number: int) -> tuple[bytes, int] | None:
    """The image of a page, and its number in the file: of a scan itself, or of what a page file names and lies beside.

    Only a name counts, not the folder that a file says: it may come from anywhere.
    """
    from conservator.pages import detect_scan_format, draw_page

    image, place = data, number
    if detect_scan_format(data) is None:
        named = transcript.pages[number].image
        name = PureWindowsPath(named or "").name  # after the last slash of either kind
        path = Path(damaged).parent / name
        if damaged == "-" or not name or not path.is_file():
            return None
        image = read_document(str(path))
        place = sum(page.image == named for page in transcript.pages[:number])
    kind = detect_scan_format(image)
    if kind == "pdf":
        return draw_page(image, place), 0
    return None if kind is None else (image, place if kind == "tiff" else 0)
