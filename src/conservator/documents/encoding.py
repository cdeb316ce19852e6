"""The encoding of a file: detected from its bytes, decoded to UTF-8, and written back in the same encoding."""

import codecs
import re
from dataclasses import dataclass

from conservator.documents.codepages import guess_codepage
from conservator.documents.damaged import MARK, encode
from conservator.documents.file_types import MAX_CONTROL_FRACTION, count_controls, name_file_type
from conservator.errors import Advice, ConservatorError, NotTextError
from conservator.system.files import check_encoding

UTF8, WIDE = "utf-8", ("utf-16", "utf-32")
# UTF-32 first, because its byte order marks start with those of UTF-16.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# fraction: minimum of zeros at every other byte of a text in UTF-16, from its spaces and line ends [untuned]
MIN_ZERO_FRACTION = 0.1
INVALID_UTF8 = re.compile("[\udc80-\udcff]+")  # invalid bytes, as Python decodes them with surrogateescape
NON_ASCII = re.compile(f"[^\0-\x7f\udc80-\udcff{MARK}]")


@dataclass(frozen=True)
class InputText:
    """A text as UTF-8, with the encoding of its file.

    Attributes:
        data: the text in UTF-8. If the file is UTF-8, its bytes, which may be partly invalid.
        encoding: the encoding of the file.
        detected: whether the encoding was detected from the bytes of the file.
    """

    data: bytes
    encoding: str = UTF8
    detected: bool = False


def read_input(
    document: str | bytes,
    encoding: str | None = None,
    *,
    name: str = "the document",
    markers: tuple[str | None, ...] = (MARK,),
    allow_invalid_utf8: bool = False,
) -> InputText:
    """Decode a file. A file that is not text is refused with its file type.

    Args:
        document: the bytes of the file; a ``str`` is used as it is.
        encoding: its encoding; None detects it from the bytes.
        name: the name of the file, for errors.
        markers: the mark and the gap marker; half a character beside a marker is valid.
        allow_invalid_utf8: whether invalid UTF-8 is expected, so that it is no evidence for another encoding.
    """
    if isinstance(document, str):
        return InputText(encode(document, name))
    data = bytes(document)
    file_type = name_file_type(data)
    if file_type is not None:
        raise NotTextError(f"{name} is {file_type}, not text")
    if encoding is not None:
        selected = _with_byte_order(data, check_encoding(encoding))
    else:
        selected = detect_encoding(data, markers, allow_invalid_utf8=allow_invalid_utf8)
        controls = 0 if selected.startswith(WIDE) else count_controls(_without_markers(data, markers))
        if controls > MAX_CONTROL_FRACTION * len(data):
            raise NotTextError(
                f"{name} is binary data, not text: {controls} of its {len(data)} bytes are control characters",
                Advice("encoding", "NAME", "reads it anyway"),
            )
    text = data if selected == UTF8 else _decode(data, selected, name).encode()
    return InputText(text, selected, detected=encoding is None)


def write_text(text: str, encoding: str) -> bytes:
    """Encode a text; raise a ConservatorError with the first character that the encoding lacks."""
    try:
        if _contains_mark(encoding):
            return text.encode(encoding)
        return MARK.encode().join(part.encode(encoding) for part in text.split(MARK))
    except UnicodeEncodeError as error:
        raise ConservatorError(f"{encoding} has no character {error.object[error.start]!r}") from error


def encode_text(text: str, encoding: str) -> tuple[bytes, str]:
    """Encode a text, and return the bytes and their encoding: UTF-8 if the encoding lacks one of the characters."""
    try:
        return write_text(text, encoding), encoding
    except ConservatorError:
        return text.encode(), UTF8


def detect_encoding(data: bytes, markers: tuple[str | None, ...] = (MARK,), *, allow_invalid_utf8: bool = False) -> str:
    """Return the encoding of a text.

    The criteria, in order: a byte order mark; zeros at every other byte; UTF-8, also with invalid bytes if more
    non-ASCII characters are valid; else a one-byte encoding.
    """
    for byte_order_mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(byte_order_mark):
            return encoding
    zeros = [data[first::2].count(0) / max(1, len(data) // 2) for first in (0, 1)]
    wide = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    if max(zeros) >= MIN_ZERO_FRACTION and min(zeros) < MIN_ZERO_FRACTION / 8 and _is_text(data, wide):
        return wide
    text = data.decode(errors="surrogateescape")
    pattern = re.compile("|".join(re.escape(marker) for marker in markers if marker))
    boundaries = {boundary for match in pattern.finditer(text) for boundary in match.span()}
    invalid = sum(
        len(match[0])
        for match in INVALID_UTF8.finditer(text)
        if match.start() not in boundaries and match.end() not in boundaries
    )
    if allow_invalid_utf8 or not invalid or len(NON_ASCII.findall(text)) > invalid:
        return UTF8
    return check_encoding(guess_codepage(_without_markers(data, (*markers, MARK))))


def _decode(data: bytes, encoding: str, name: str) -> str:
    """Decode bytes in an encoding other than UTF-8; refuse a text that does not encode to the same bytes."""
    try:
        text = data.decode(encoding)
        if not _contains_mark(encoding):
            text = MARK.join(part.decode(encoding) for part in data.split(MARK.encode()))
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"{name} is not {encoding}: byte {error.start} is {data[error.start]:#04x}, which starts no character",
            Advice("encoding", "NAME", "selects another encoding"),
        ) from error
    try:
        same = write_text(text, encoding) == data
    except (ConservatorError, UnicodeError):
        same = False
    if not same:
        raise ConservatorError(
            f"{name} can be decoded as {encoding}, but not encoded to the same bytes; convert it to UTF-8 first"
        )
    return text


def _is_text(data: bytes, encoding: str) -> bool:
    """Whether bytes are text in an encoding: nearly all characters are assigned and printable."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    unprintable = sum(not (character.isprintable() or character.isspace()) for character in text)
    return unprintable <= MAX_CONTROL_FRACTION * len(text)


def _with_byte_order(data: bytes, encoding: str) -> str:
    """Return the encoding with its byte order, from the byte order mark or the zeros; little-endian by default."""
    if encoding not in WIDE:
        return encoding
    detected = detect_encoding(data)
    return detected if detected.startswith(encoding) else f"{encoding}-le"


def _contains_mark(encoding: str) -> bool:
    """Whether MARK is a character of an encoding.

    One-byte encodings lack it. There the bytes of its UTF-8 stand for it, because software writes these into any file.
    """
    return len(bytes(range(256)).decode(encoding, "replace")) != 256


def _without_markers(data: bytes, markers: tuple[str | None, ...]) -> bytes:
    """Return the bytes without the markers."""
    for marker in markers:
        data = data.replace(encode(marker, "the mark"), b"") if marker else data
    return data
