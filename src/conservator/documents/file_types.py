"""File types of files that are not text, by their signatures; binary data, by its control characters."""

import re

CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # not in text; escape and form feed occur in some texts
MAX_CONTROL_FRACTION = 0.05  # fraction: a file with more control characters is binary data [untuned]
PDF, ZIP = "a PDF document", "a ZIP archive"
# File types, and patterns of their first bytes. The first match is taken.
SIGNATURES = {
    PDF: rb"%PDF-",
    "a PNG image": rb"\x89PNG\r\n\x1a\n",
    "a JPEG image": rb"\xff\xd8\xff",
    "a GIF image": rb"GIF8[79]a",
    "a WebP image": rb".{8}WEBPVP8",
    "a WAV sound": rb".{8}WAVEfmt ",
    "an AVI film": rb".{8}AVI LIST",
    "a TIFF image": rb"II[*+]\0|MM\0[*+]",
    "a JPEG 2000 image": rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    "a DjVu document": rb"AT&TFORM",
    "a Photoshop image": rb"8BPS\0",
    ZIP: rb"PK\x03\x04",
    "an empty ZIP archive": rb"PK\x05\x06",
    "gzip-compressed data": rb"\x1f\x8b\x08",
    "bzip2-compressed data": rb"BZh",
    "xz-compressed data": rb"\xfd7zXZ\0",
    "zstd-compressed data": rb"\x28\xb5\x2f\xfd",
    "a 7z archive": rb"7z\xbc\xaf\x27\x1c",
    "a RAR archive": rb"Rar!\x1a\x07",
    "a tar archive": rb".{257}ustar",
    "an ELF program": rb"\x7fELF",
    "a Mach-O program": rb"[\xce\xcf]\xfa\xed\xfe",
    "a Java class file or a Mach-O program": rb"\xca\xfe\xba\xbe",
    "an SQLite database": rb"SQLite format 3\0",
    "a WebAssembly module": rb"\0asm",
    "an MP3 sound": rb"ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb][\x10-\xef](?=.*" + CONTROLS.pattern + rb")",  # a frame
    "an HEIC image": rb".{4}ftyp(?:hei[cx]|mif1)",
    "an AVIF image": rb".{4}ftypavif",
    "an MP4 film or sound": rb".{4}ftyp",
    "an Ogg sound or film": rb"OggS\0",
    "a FLAC sound": rb"fLaC\0",
    "a WOFF font": rb"wOF[F2]",
    "an OpenType font": rb"OTTO\0",
    "a Mobipocket book": rb".{60}BOOKMOBI",
    "a Parquet table": rb"PAR1",
    "an old Microsoft Office document": rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "a Windows program": rb"MZ.{58}.{2}\0\0(?=.*PE\0\0)",
    "a BMP image": rb"BM.{4}\0{4}.{3}\0",  # the file size, zeros, the offset of the pixels
    "a PNM image": rb"P[456](?:\s+|#[^\n]*\n)+\d+\s+\d+\s",  # width and height
    "a safetensors file": rb'.{5}\0\0\0\{"',  # the length of the header, which is JSON
}
PATTERNS = {file_type: re.compile(signature, re.DOTALL) for file_type, signature in SIGNATURES.items()}
# Content of a ZIP archive, file type.
ZIP_CONTENTS = {
    b"word/": "a Word document (docx)",
    b"xl/": "an Excel workbook (xlsx)",
    b"ppt/": "a PowerPoint presentation (pptx)",
    b"application/epub+zip": "an EPUB book",
    b"application/vnd.oasis.opendocument.text": "an OpenDocument text (odt)",
    b"application/vnd.oasis.opendocument": "an OpenDocument file",
    b"META-INF/MANIFEST.MF": "a Java archive",
}
ARCHIVE_WINDOW = 2**16  # bytes: searched for names of files at both ends of an archive [safety limit]


def name_file_type(data: bytes) -> str | None:
    """Return the file type, such as ``"a PNG image"``; None if the data has no known signature.

    A text may start with the letters of a signature. Plain text therefore has no file type, unless it is a PDF.
    """
    file_type = next((file_type for file_type, pattern in PATTERNS.items() if pattern.match(data)), None)
    if file_type == ZIP:
        window = data[:ARCHIVE_WINDOW] + data[-ARCHIVE_WINDOW:]
        return next((contained for name, contained in ZIP_CONTENTS.items() if name in window), ZIP)
    return None if file_type not in (None, PDF) and _is_plain_text(data) else file_type


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
