"""Files of OCR engines and pictures of pages, as ``conservator restore`` takes and writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from conservator.cli.console import messages
from conservator.errors import ConservatorError

if TYPE_CHECKING:
    from conservator.channels import Trust
    from conservator.pages import Transcript
    from conservator.restoration import Restoration


def is_pages(data: bytes) -> bool:
    """Whether a file is of an OCR engine, or a picture of pages."""
    from conservator.pages import name_format, name_scan

    return name_scan(data) is not None or name_format(data) is not None


def read_any(data: bytes, name: str, language: str, progress: Callable[[str, float], None]) -> "Transcript":
    """The transcript in a file of an OCR engine, or what Tesseract reads in a picture."""
    from conservator.pages import name_scan, read_pages, read_scan

    try:
        if name_scan(data) is None:
            return read_pages(data)
        return read_scan(data, language=language, name=name, progress=lambda _, share: progress("scan", share))
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error


def trust_in(transcript: "Transcript") -> "Trust | None":
    """What the reader said of each character of a transcript."""
    from conservator.pages import trust_of

    return trust_of(transcript)


def write_pages(transcript: "Transcript", found: "Restoration", out: str) -> bytes:
    """The file with corrected words, or their text if it goes to a .txt file, with indentation if pages show it."""
    if Path(out).suffix == ".txt":
        from conservator.pages import indented

        return indented(transcript, found.text).encode()
    messages.print(f"written as {transcript.format}; -o NAME.txt gives the text alone", soft_wrap=True)
    return transcript.with_text(transcript.changes(found.text))
