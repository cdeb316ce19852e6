"""The encoding of a file: told by its bytes, read as UTF-8, and written again as it was."""

import codecs
import re
from dataclasses import dataclass

from conservator.documents.codepages import guess_codepage
from conservator.documents.damaged import MARK, encode
from conservator.documents.file_types import MOST, count_controls, name_file_type
from conservator.errors import Advice, ConservatorError, NotTextError
from conservator.system.files import check_encoding

UTF8, WIDE = "utf-8", ("utf-16", "utf-32")
# Byte order marks. Those of UTF-32 begin like those of UTF-16.
ORDERS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ZEROS = 0.1  # the share of zeros in every other place of a text in UTF-16, at least: its blanks and line ends
STRAY = re.compile("[\udc80-\udcff]+")  # bytes that fit into no UTF-8, as Python decodes them
BEYOND = re.compile(f"[^\0-\x7f\udc80-\udcff{MARK}]")  # characters outside ASCII


@dataclass(frozen=True)
class InputText:
    """A text as UTF-8, and how its file was written.

    Attributes:
        data: the text in UTF-8; if the file is UTF-8, its bytes, which need not all be valid.
        encoding: the encoding of the file.
        detected: whether it was told by the bytes of the file.
    """

    data: bytes
    encoding: str = UTF8
    detected: bool = False


def read_input(
    document: str | bytes,
    encoding: str | None = None,
    *,
    name: str = "the document",
    signs: tuple[str | None, ...] = (MARK,),
    allow_invalid_utf8: bool = False,
) -> InputText:
    """The text of a file. A file that is not text is refused, and named for what it is.

    Args:
        document: the bytes of the file; a text is taken as it is.
        encoding: its encoding; None tells it by the bytes.
        name: of the file, for errors.
        signs: what stands for something lost; half a character may stand beside such a sign.
        allow_invalid_utf8: whether bytes that fit into no UTF-8 are expected, so that they speak for no other encoding.
    """
    if isinstance(document, str):
        return InputText(encode(document, name))
    data = bytes(document)
    kind = name_file_type(data)
    if kind is not None:
        raise NotTextError(f"{name} is {kind}, not text")
    if encoding is not None:
        found = _with_order(data, check_encoding(encoding))
    else:
        found = detect_encoding(data, signs, allow_invalid_utf8=allow_invalid_utf8)
        controls = 0 if found.startswith(WIDE) else count_controls(_without(data, signs))
        if controls > MOST * len(data):
            raise NotTextError(
                f"{name} is binary data, not text: {controls} of its {len(data)} bytes are control characters",
                Advice("encoding", "NAME", "reads it all the same"),
            )
    text = data if found == UTF8 else _decode(data, found, name).encode()
    return InputText(text, found, detected=encoding is None)


def write_text(text: str, encoding: str) -> bytes:
    """The text in an encoding; raise a ConservatorError that names the first character that has no place in it."""
    try:
        if _holds_mark(encoding):
            return text.encode(encoding)
        return MARK.encode().join(part.encode(encoding) for part in text.split(MARK))
    except UnicodeEncodeError as error:
        raise ConservatorError(f"{error.object[error.start]!r} has no place in {encoding}") from error


def detect_encoding(data: bytes, signs: tuple[str | None, ...] = (MARK,), *, allow_invalid_utf8: bool = False) -> str:
    """The encoding of a text.

    In order: a byte order mark; zeros in every other place; UTF-8, also if a few bytes fit into none while more
    characters outside ASCII are whole; else a one-byte encoding.
    """
    for order, encoding in ORDERS:
        if data.startswith(order):
            return encoding
    zeros = [data[first::2].count(0) / max(1, len(data) // 2) for first in (0, 1)]
    wide = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    if max(zeros) >= ZEROS and min(zeros) < ZEROS / 8 and _is_text(data, wide):
        return wide
    text = data.decode(errors="surrogateescape")
    beside = re.compile("|".join(re.escape(sign) for sign in signs if sign))
    places = {place for match in beside.finditer(text) for place in match.span()}
    unfit = sum(len(one[0]) for one in STRAY.finditer(text) if one.start() not in places and one.end() not in places)
    if allow_invalid_utf8 or not unfit or len(BEYOND.findall(text)) > unfit:
        return UTF8
    return check_encoding(guess_codepage(_without(data, (*signs, MARK))))


def _decode(data: bytes, encoding: str, name: str) -> str:
    """The text of bytes in an encoding other than UTF-8, if it can be written as the same bytes again."""
    try:
        text = data.decode(encoding)
        if not _holds_mark(encoding):
            text = MARK.join(part.decode(encoding) for part in data.split(MARK.encode()))
    except UnicodeDecodeError as error:
        raise ConservatorError(
            f"{name} is not {encoding}: byte {error.start} is {data[error.start]:#04x}, which begins no character",
            Advice("encoding", "NAME", "names another encoding"),
        ) from error
    try:
        same = write_text(text, encoding) == data
    except (ConservatorError, UnicodeError):
        same = False
    if not same:
        raise ConservatorError(
            f"{name} can be read as {encoding}, but its text cannot be written as the same bytes again; "
            "convert it to UTF-8 first"
        )
    return text


def _is_text(data: bytes, encoding: str) -> bool:
    """Whether bytes are text in an encoding: nearly all its characters are known ones that can be printed."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return sum(not (one.isprintable() or one.isspace()) for one in text) <= MOST * len(text)


def _with_order(data: bytes, encoding: str) -> str:
    """The encoding with its byte order, by the mark at the beginning or the zeros; the small end first, if neither."""
    if encoding not in WIDE:
        return encoding
    found = detect_encoding(data)
    return found if found.startswith(encoding) else f"{encoding}-le"


def _holds_mark(encoding: str) -> bool:
    """Whether MARK is a character of an encoding.

    In a one-byte encoding it is none: there the bytes of its UTF-8 stand for it, as software writes it into any file.
    """
    return len(bytes(range(256)).decode(encoding, "replace")) != 256


def _without(data: bytes, signs: tuple[str | None, ...]) -> bytes:
    """The bytes without the signs."""
    for sign in signs:
        data = data.replace(encode(sign, "the mark"), b"") if sign else data
    return data
