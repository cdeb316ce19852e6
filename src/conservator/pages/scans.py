"""Pictures of pages, read by the installed Tesseract."""

from collections.abc import Callable

from conservator.errors import ConservatorError
from conservator.pages.reading import read_pages
from conservator.pages.tesseract import LAYOUTS, find_tesseract
from conservator.pages.transcript import Transcript

SECONDS = 600.0  # for a page


def read_scan(
    data: bytes,
    *,
    language: str = "eng",
    layout: str = "auto",
    symbols: bool = True,
    progress: Callable[[str, float], None] | None = None,
) -> Transcript:
    """Read an image.

    Args:
        data: the bytes of the file.
        language: of the text, by Tesseract's names; several with ``+`` between them.
        layout: ``auto``, ``column`` for a single column, ``block`` for lines that go across the page, such as code.
        symbols: whether every character has its confidence and other readings; else only words have confidences.
        progress: called with what is done and its share from 0 to 1.
    """
    if layout not in LAYOUTS:
        raise ConservatorError(f"the layout {layout!r}; {', '.join(LAYOUTS)} are accepted")
    tesseract = find_tesseract()
    tesseract.check_language(language)
    return read_pages(tesseract.read(data, language, layout=layout, symbols=symbols, seconds=SECONDS))
