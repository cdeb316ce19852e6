"""File types of files that are not text, by their signatures; binary data, by its control characters."""

import re

ZIP = "a ZIP archive"
# Offset, signature, file type. The first match is taken.
SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF87a", "a GIF image"),
    (0, b"GIF89a", "a GIF image"),
    (8, b"WEBPVP8", "a WebP image"),
    (8, b"WAVEfmt ", "a WAV sound"),
    (8, b"AVI LIST", "an AVI film"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"II+\0", "a TIFF image"),
    (0, b"MM\0+", "a TIFF image"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image"),
    (0, b"AT&TFORM", "a DjVu document"),
    (0, b"8BPS\0", "a Photoshop image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"PK\x03\x04", ZIP),
    (0, b"PK\x05\x06", "an empty ZIP archive"),
    (0, b"\x1f\x8b\x08", "gzip-compressed data"),
    (0, b"BZh", "bzip2-compressed data"),
    (0, b"\xfd7zXZ\0", "xz-compressed data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "an ELF program"),
    (0, b"\xce\xfa\xed\xfe", "a Mach-O program"),
    (0, b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (0, b"\xca\xfe\xba\xbe", "a Java class file or a Mach-O program"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\0asm", "a WebAssembly module"),
    (0, b"ID3\x02", "an MP3 sound"),
    (0, b"ID3\x03", "an MP3 sound"),
    (0, b"ID3\x04", "an MP3 sound"),
    (4, b"ftypheic", "an HEIC image"),
    (4, b"ftypheix", "an HEIC image"),
    (4, b"ftypmif1", "an HEIC image"),
    (4, b"ftypavif", "an AVIF image"),
    (4, b"ftyp", "an MP4 film or sound"),
    (0, b"OggS\0", "an Ogg sound or film"),
    (0, b"fLaC\0", "a FLAC sound"),
    (0, b"wOFF", "a WOFF font"),
    (0, b"wOF2", "a WOFF font"),
    (0, b"OTTO\0", "an OpenType font"),
    (60, b"BOOKMOBI", "a Mobipocket book"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office document"),
)
# Content of a ZIP archive, file type.
ZIP_CONTENTS: tuple[tuple[bytes, str], ...] = (
    (b"word/", "a Word document (docx)"),
    (b"xl/", "an Excel workbook (xlsx)"),
    (b"ppt/", "a PowerPoint presentation (pptx)"),
    (b"application/epub+zip", "an EPUB book"),
    (b"application/vnd.oasis.opendocument.text", "an OpenDocument text (odt)"),
    (b"application/vnd.oasis.opendocument", "an OpenDocument file"),
    (b"META-INF/MANIFEST.MF", "a Java archive"),
)
CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # not in text; escape and form feed occur in some texts
MAX_CONTROL_FRACTION = 0.05  # fraction: a file with more control characters is binary data [untuned]
PROGRAM = re.compile(rb"MZ.{58}(.{4})", re.DOTALL)
BITMAP = re.compile(rb"BM.{4}\0{4}.{3}\0", re.DOTALL)  # the file size, zeros, the offset of the pixels
PIXMAP = re.compile(rb"P[456](?:\s+|#[^\n]*\n)+\d+\s+\d+\s")  # width and height
TENSORS = re.compile(rb'.{5}\0\0\0\{"', re.DOTALL)  # the length of the header, which is JSON
SOUND = re.compile(rb"\xff[\xf2\xf3\xfa\xfb][\x10-\xef]")  # a frame of MPEG audio layer 3
ARCHIVE_WINDOW = 2**16  # bytes: searched for names of files at both ends of an archive [safety limit]


def name_file_type(data: bytes) -> str | None:
    """Return the file type, such as ``"a PNG image"``; None if the data has no known signature.

    A text may start with the letters of a signature. A signature of letters therefore counts only if the file is not
    plain text.
    """
    for offset, signature, file_type in SIGNATURES:
        is_letters = signature.isalnum() and signature.isascii()
        if data.startswith(signature, offset) and not (is_letters and _is_plain_text(data)):
            return _archive_type(data) if file_type == ZIP else file_type
    program = PROGRAM.match(data)
    if program is not None and data.startswith(b"PE\0\0", int.from_bytes(program[1], "little")):
        return "a Windows program"
    if BITMAP.match(data):
        return "a BMP image"
    if PIXMAP.match(data) and not _is_plain_text(data):
        return "a PNM image"
    if TENSORS.match(data):
        return "a safetensors file"
    return "an MP3 sound" if SOUND.match(data) and count_controls(data) else None


def count_controls(data: bytes) -> int:
    """Return the number of control characters that do not occur in text."""
    return len(CONTROLS.findall(data))


def _is_plain_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8 without control characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not count_controls(data)


def _archive_type(data: bytes) -> str:
    """Return the file type of a ZIP archive, by the names of the files in it."""
    window = data[:ARCHIVE_WINDOW] + data[-ARCHIVE_WINDOW:]
    return next((file_type for name, file_type in ZIP_CONTENTS if name in window), ZIP)
