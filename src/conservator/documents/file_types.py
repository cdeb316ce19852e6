"""What a file is that is not text: kinds told by their first bytes, and binary data by its control characters."""

import re

ZIP = "a ZIP archive"
# The bytes that a file of a kind has at a place -> the kind. The first that fits is taken.
MAGIC: tuple[tuple[int, bytes, str], ...] = (
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
# What a ZIP archive with such a file in it is.
PACKED: tuple[tuple[bytes, str], ...] = (
    (b"word/", "a Word document (docx)"),
    (b"xl/", "an Excel workbook (xlsx)"),
    (b"ppt/", "a PowerPoint presentation (pptx)"),
    (b"application/epub+zip", "an EPUB book"),
    (b"application/vnd.oasis.opendocument.text", "an OpenDocument text (odt)"),
    (b"application/vnd.oasis.opendocument", "an OpenDocument file"),
    (b"META-INF/MANIFEST.MF", "a Java archive"),
)
CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # which no text has; escape and form feed occur in some
MOST = 0.05  # the share of such bytes from which a file is binary data
PROGRAM = re.compile(rb"MZ.{58}(.{4})", re.DOTALL)
BITMAP = re.compile(rb"BM.{4}\0{4}.{3}\0", re.DOTALL)  # the size of the file, zeros, where the pixels begin
PIXMAP = re.compile(rb"P[456](?:\s+|#[^\n]*\n)+\d+\s+\d+\s")  # width and height
TENSORS = re.compile(rb'.{5}\0\0\0\{"', re.DOTALL)  # the length of the header, which is JSON
SOUND = re.compile(rb"\xff[\xf2\xf3\xfa\xfb][\x10-\xef]")  # a frame of MPEG audio, layer 3
SEEN = 2**16  # bytes at the beginning and the end in which the files of an archive are looked for


def name_file_type(data: bytes) -> str | None:
    """What the file is, such as ``"a PNG image"``; None if it has the beginning of no known kind.

    A text may begin with the letters of a kind: such a sign counts only in a file that holds what no text does.
    """
    for place, sign, kind in MAGIC:
        if data.startswith(sign, place) and not (sign.isalnum() and sign.isascii() and _is_plain(data)):
            return _packed(data) if kind == ZIP else kind
    program = PROGRAM.match(data)
    if program is not None and data.startswith(b"PE\0\0", int.from_bytes(program[1], "little")):
        return "a Windows program"
    if BITMAP.match(data):
        return "a BMP image"
    if PIXMAP.match(data) and not _is_plain(data):
        return "a PNM image"
    if TENSORS.match(data):
        return "a safetensors file"
    return "an MP3 sound" if SOUND.match(data) and count_controls(data) else None


def count_controls(data: bytes) -> int:
    """How many bytes are control characters that no text has."""
    return len(CONTROLS.findall(data))


def _is_plain(data: bytes) -> bool:
    """Whether the bytes are UTF-8 without control characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not count_controls(data)


def _packed(data: bytes) -> str:
    """What a ZIP archive is, by the names of the files in it."""
    seen = data[:SEEN] + data[-SEEN:]
    return next((kind for name, kind in PACKED if name in seen), ZIP)
