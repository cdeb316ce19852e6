"""Documents: an input is opened, restored, and written back in its own format and encoding.

``open_document`` reads text files, OCR files (hOCR, ALTO, PAGE XML, Tesseract TSV), scans, rows of tables (as ``str``)
and members of archives (as ``bytes``). The Python API, the command line, batches and the web page all use it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from conservator.channel_names import AUTO
from conservator.channels import OcrConfidence, needs_experts
from conservator.documents import UTF8, overwritten_rate, read_input
from conservator.errors import ConservatorError, OptionError
from conservator.options import DEFAULTS, RestoreOptions
from conservator.system.files import display_name, read_document, write_document

if TYPE_CHECKING:
    from conservator.pages import Transcript
    from conservator.results import Restoration

STANDARD_INPUT = "-"
UNNAMED = "the document"  # name of a document that is not a file


@dataclass(frozen=True)
class Document:
    """An opened document.

    Attributes:
        data: Its text in UTF-8. If the file is UTF-8, these are its bytes, which may be partly invalid.
        name: Name for messages.
        encoding: Encoding of the file.
        encoding_detected: Whether the encoding was detected from the bytes of the file.
        ocr_confidence: OCR confidence of each character of the text; None without any.
        transcript: Pages, lines and words of an OCR file or a scan, with their boxes; None for other documents.
        source: Bytes of the file; for a text, ``data``.
    """

    data: bytes
    name: str = UNNAMED
    encoding: str = UTF8
    encoding_detected: bool = False
    ocr_confidence: OcrConfidence | None = None
    transcript: "Transcript | None" = None
    source: bytes = field(default=b"", repr=False)

    def select_channel(self, options: RestoreOptions) -> RestoreOptions:
        """Return the options for this document: the recognised text of an OCR file or a scan needs an OCR channel."""
        if self.transcript is None:
            return options
        if options.channel in (DEFAULTS.channel, AUTO):
            return replace(options, channel="ocr")
        if needs_experts(options.channel):
            expected = "must be 'ocr' or another channel of errors in visible text for a file of an OCR engine"
            raise OptionError(
                "channel", f"{expected} ({self.name} is {self.transcript.format}), got {options.channel!r}"
            )
        return options

    def encode(self, result: "Restoration", *, text_only: bool = False) -> bytes:
        """Return the result in the format and the encoding of the document.

        An OCR file keeps everything but the corrected words, which get their confidence and the original word; the
        result of a scan is hOCR. If a restored character does not exist in the encoding of a text, it becomes UTF-8.

        Args:
            result: Result of restoring this document.
            text_only: Whether to return only the text of an OCR file or a scan, with the indentation of the page.
        """
        if self.transcript is None:
            return result.encoded[0]
        if text_only:
            from conservator.pages import add_indentation

            return add_indentation(self.transcript, result.text).encode()
        if not result.edits:
            return self.transcript.data
        changes = zip(self.character_spans(result), result.edits, strict=True)
        return self.transcript.apply_changes(
            self.transcript.word_changes(
                (*span, edit.written().decode(errors="replace"), edit.probability) for span, edit in changes
            )
        )

    def write(self, result: "Restoration", path: str | Path) -> None:
        """Write the result to a file, completely or not at all; ``-`` is standard output.

        A file with the suffix ``.txt`` gets only the text of an OCR file or a scan.
        """
        write_document(str(path), self.encode(result, text_only=Path(path).suffix == ".txt"))

    def character_spans(self, result: "Restoration") -> list[tuple[int, int]]:
        """Return the half-open range of characters of the text that each edit replaces."""
        edges = [edge for edit in result.edits for edge in edit.span]
        parts = (self.data[start:stop].decode() for start, stop in zip([0, *edges], edges, strict=False))
        offsets = list(accumulate(map(len, parts)))
        return list(zip(offsets[::2], offsets[1::2], strict=True))


def open_document(
    source: str | bytes | Path,
    options: RestoreOptions = DEFAULTS,
    *,
    name: str | None = None,
    read_scans: bool = True,
    progress: Callable[[str, float], None] | None = None,
) -> Document:
    """Open a document; a file that is neither text nor an OCR file nor a scan is refused with its file type.

    Args:
        source: A text, the bytes of a file, or its path; the path ``-`` is standard input.
        options: ``encoding``, ``mark``, ``gap``, ``lost`` and ``channel`` determine how the bytes are decoded, and
            ``ocr_language`` the language of a scan.
        name: Name for messages; by default that of the file.
        read_scans: Whether to run OCR on images and PDF files. Otherwise they are refused, like other binary files.
        progress: Called with the stage ``reading`` and its completed share while OCR runs.
    """
    if isinstance(source, str):
        data = read_input(source, name=name or UNNAMED).data
        return Document(data, name or UNNAMED, source=data)
    if isinstance(source, Path):
        name = name or ("standard input" if str(source) == STANDARD_INPUT else display_name(source))
        source = read_document(str(source))
    name = name or UNNAMED
    transcript = _read_transcript(source, name, options, progress, read_scans=read_scans)
    if transcript is not None:
        from conservator.pages import ocr_confidence_of

        confidence = ocr_confidence_of(transcript)
        return Document(transcript.text.encode(), name, ocr_confidence=confidence, transcript=transcript, source=source)
    text = read_input(
        source,
        options.encoding,
        name=name,
        markers=options.markers,
        allow_invalid_utf8=options.allow_invalid_utf8 or (options.channel == AUTO and overwritten_rate(source) > 0),
    )
    return Document(text.data, name, text.encoding, text.detected, source=source)


def _read_transcript(
    data: bytes,
    name: str,
    options: RestoreOptions,
    progress: Callable[[str, float], None] | None,
    *,
    read_scans: bool,
) -> "Transcript | None":
    """Read an OCR file, or run OCR on a scan; None for any other file."""
    from conservator.pages import detect_ocr_format, detect_scan_format, read_pages, read_scan

    try:
        if read_scans and detect_scan_format(data) is not None:
            return read_scan(data, language=options.ocr_language, name=name, progress=progress)
        return None if detect_ocr_format(data) is None else read_pages(data)
    except ConservatorError as error:
        raise ConservatorError(f"{name}: {error}") from error
