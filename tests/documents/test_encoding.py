"""Encodings of files: decoded and written back in the same encoding, or refused with the file type."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conservator import RestoreOptions, open_document, restore
from conservator.documents import read_input, write_text
from conservator.documents.codepages import guess_codepage
from conservator.documents.encoding import detect_encoding
from conservator.documents.file_types import name_file_type
from conservator.errors import ConservatorError, NotTextError, OptionError
from conservator.system.files import check_encoding
from support.fakes import FakeExpert

MARK = "\ufffd"
FRENCH = "L’été dernier, à Orléans, le garçon a mangé une crêpe au café ; c’était très bon, dit-il.\r\n"  # noqa: RUF001
GERMAN = "Die Größe des Hauses überraschte uns: fünf Räume, ein Flur, eine Küche für 30 €.\n"
POLISH = "Zażółć gęślą jaźń; łódź płynie wąską rzeką, a źrebię śpi.\n"
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl učitel.\n"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"
ENGLISH = "“It’s a naïve café in München”, he said – 5 ° colder … © 2003\n"  # noqa: RUF001
SPANISH = "El niño comió una manzana en la montaña, según la señora; ¿qué más?\n"


@pytest.mark.parametrize(
    ("text", "codec", "detected"),
    [
        (FRENCH, "utf-8", "utf-8"),
        (FRENCH, "utf-8-sig", "utf-8"),
        (FRENCH, "cp1252", "windows-1252"),
        (GERMAN, "cp1252", "windows-1252"),
        (ENGLISH, "cp1252", "windows-1252"),
        (SPANISH, "latin-1", "windows-1252"),
        (GERMAN, "iso-8859-15", "iso-8859-15"),
        (GERMAN, "utf-16-le", "utf-16-le"),
        (FRENCH, "utf-16-be", "utf-16-be"),
        (RUSSIAN, "utf-16-be", "utf-16-be"),
        (f"\ufeff{POLISH}", "utf-16-le", "utf-16-le"),
        (f"\ufeff{RUSSIAN}", "utf-16-be", "utf-16-be"),
        (f"\ufeff{CZECH}", "utf-32-le", "utf-32-le"),
        (f"\ufeff{CZECH}", "utf-32-be", "utf-32-be"),
        (POLISH, "cp1250", "windows-1250"),
        (CZECH, "iso-8859-2", "iso-8859-2"),
        (POLISH, "cp852", "cp852"),
        (SPANISH, "mac-roman", "mac-roman"),
        (SPANISH, "cp850", "cp850"),
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8-r", "koi8-u"),
        (RUSSIAN, "cp866", "cp866"),
    ],
)
def test_an_undamaged_file_round_trips(text, codec, detected):
    data = text.encode(codec)
    source = read_input(data)
    assert (source.encoding, source.detected) == (detected, True)
    assert source.data.decode() == (f"\ufeff{text}" if codec == "utf-8-sig" else text)
    result = restore(data, [FakeExpert()])
    assert (result.encoding, result.text) == (detected, source.data.decode())
    assert result.encoded == (data, detected)


def zip_archive(*names):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as handle:
        for name, content in names:
            handle.writestr(name, content)
    return archive.getvalue()


NOISE = np.random.default_rng(0).bytes(4000)


@pytest.mark.parametrize(
    ("data", "file_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "a JPEG image"),
        (b"GIF89a\x01\0\x01\0", "a GIF image"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "a WebP image"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV sound"),
        (b"II*\0\x08\0\0\0", "a TIFF image"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
        (zip_archive(("a.txt", "text")), "a ZIP archive"),
        (zip_archive(("[Content_Types].xml", ""), ("word/document.xml", "")), "a Word document (docx)"),
        (zip_archive(("xl/workbook.xml", "")), "an Excel workbook (xlsx)"),
        (zip_archive(("mimetype", "application/epub+zip")), "an EPUB book"),
        (zip_archive(("mimetype", "application/vnd.oasis.opendocument.text")), "an OpenDocument text (odt)"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip-compressed data"),
        (b"BZh91AY&SY\0", "bzip2-compressed data"),
        (b"\xfd7zXZ\0\0\x04", "xz-compressed data"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd-compressed data"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive"),
        (b"a.txt".ljust(257, b"\0") + b"ustar\x0000", "a tar archive"),
        (b"\x7fELF\x02\x01\x01\0", "an ELF program"),
        (b"MZ".ljust(60, b"\0") + b"\x40\0\0\0PE\0\0", "a Windows program"),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", "a Mach-O program"),
        (b"\xca\xfe\xba\xbe\0\0\0\x41", "a Java class file or a Mach-O program"),
        (b"SQLite format 3\0\x10\0", "an SQLite database"),
        (b"\0asm\x01\0\0\0", "a WebAssembly module"),
        (b"ID3\x04\0\0\0\0", "an MP3 sound"),
        (b"\xff\xfb\x90\x64\0\0", "an MP3 sound"),
        (b"\0\0\0\x18ftypmp42", "an MP4 film or sound"),
        (b"OggS\0\x02", "an Ogg sound or film"),
        (b"wOF2\0\x01\0\0", "a WOFF font"),
        (b'\x10\0\0\0\0\0\0\0{"a":{}}\0', "a safetensors file"),
        (b"PAR1\x15\x04\x15", "a Parquet table"),
        (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0", "a BMP image"),
        (b"P5\n# a comment\n2 2\n255\n\0\1\2\3", "a PNM image"),
        (b"II+\0\x08\0\0\0", "a TIFF image"),
        (b"\0\0\0\x0cjP  \r\n", "a JPEG 2000 image"),
        (b"AT&TFORM\0\0\x01\x02DJVU", "a DjVu document"),
        (b"\0\0\0\x18ftypheic\0", "an HEIC image"),
        (NOISE, "binary data"),
        (bytes(1000), "binary data"),
        (b"a\0b", "binary data"),
    ],
)
def test_the_error_names_the_file_type(data, file_type):
    with pytest.raises(NotTextError, match=r"photo\.txt is ") as error:
        read_input(data, name="photo.txt")
    assert f"photo.txt is {file_type}, not text" in str(error.value)
    with pytest.raises(NotTextError, match="the document is "):
        open_document(data, RestoreOptions(lost="invalid"), read_scans=False)


@pytest.mark.parametrize(
    "text",
    [
        "wOFF means web open font",
        "PAR1 is a road",
        "PK",
        "MZ",
        "%PDF is a format",
        "BZh",
        "BMW",
        "P5 8 9 is a row",
        "",
        "\x1b[1mlog\x1b[0m",
    ],
)
def test_a_text_may_start_with_a_signature(text):
    assert name_file_type(text.encode()) is None
    assert read_input(text.encode()).data == text.encode()


CODECS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "cp1252", "latin-1", "cp1250", "cp850", "mac-roman", "koi8-r")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), st.sampled_from(CODECS))
def test_any_text_in_any_encoding_round_trips(text, codec):
    """With a given or a detected encoding, correct or not, no byte changes, or the file is refused."""
    data = text.encode(codec, "ignore")
    try:
        source = read_input(data, markers=("[...]",))
    except ConservatorError:
        source = read_input(data, codec, markers=("[...]",))
    written = source.data if source.encoding == "utf-8" else write_text(source.data.decode(), source.encoding)
    assert written == data
    given_codec = read_input(data, codec)
    assert given_codec.data.decode().replace(MARK, "") == data.decode(codec).replace(MARK, "").replace("ï¿½", "")


@given(st.binary(max_size=60))
def test_any_bytes_round_trip_or_are_refused(data):
    try:
        restoration = restore(data, [FakeExpert()], mark="[#]")
    except ConservatorError:
        return
    assert restoration.encoded[0] == data


@pytest.mark.parametrize(
    ("codec", "mark"),
    [("cp1252", "?"), ("cp1252", "_"), ("cp1252", MARK), ("utf-16-le", MARK), ("utf-16-be", "[?]"), ("cp1250", MARK)],
)
def test_marks_are_found_in_any_encoding(codec, mark):
    text = POLISH if codec == "cp1250" else FRENCH.replace("garçon", "gar#on")
    before, after = f"{text}un b", f"teau ; {text}"
    data = mark.encode() if codec.startswith("cp") else mark.encode(codec)
    data = before.encode(codec) + data + after.encode(codec)
    restoration = restore(data, [FakeExpert()], mark=mark)
    assert restoration.summary.lost == 1
    written, encoding = restoration.encoded
    if encoding != "utf-8":
        assert written.startswith(before.encode(codec))
        assert written.endswith(after.encode(codec))
    unfilled = restore(data, [FakeExpert()], mark=mark, min_confidence=1.0)
    assert unfilled.encoded[0] == data


def test_a_text_that_the_encoding_lacks_is_written_as_utf8():
    assert write_text("café �", "windows-1252") == b"caf\xe9 \xef\xbf\xbd"
    with pytest.raises(ConservatorError, match="windows-1252 has no character 'ł'"):
        write_text("é ł", "windows-1252")
    restoration = restore("caf\xe9 ##".encode("cp1252"), [FakeExpert(sharpness=0.0)], mark="#", encoding="cp1252")
    data, encoding = restoration.encoded
    assert data.decode(encoding) == restoration.text


def test_damaged_utf8_is_distinguished_from_other_encodings():
    damaged = FRENCH.encode().replace(b" bon", b" b\xffn")
    assert detect_encoding(damaged) == "utf-8"
    with pytest.raises(
        ConservatorError, match=r"byte \d+ is 0xff.*encoding='NAME'.*lost='invalid' counts the 1 invalid byte"
    ) as error:
        restore(damaged, [FakeExpert()])
    assert "; --lost " in error.value.format_message(lambda advice: f"--{advice.option} {advice.value}")
    half = FRENCH.encode().replace("é".encode(), b"\xc3" + MARK.encode())
    assert detect_encoding(half) == "utf-8"
    latin = FRENCH.replace("\u2019", "'").encode("latin-1")
    assert detect_encoding(latin) == "windows-1252"
    assert detect_encoding(latin, allow_invalid_utf8=True) == "utf-8"
    assert detect_encoding(latin.replace(b"dernier", MARK.encode())) == "windows-1252"
    assert guess_codepage(b"caf\xe9 " * 4000 + b"\x81") == "iso8859-1"  # it has a character for every byte


@pytest.mark.parametrize(
    ("data", "encoding", "error", "message"),
    [
        (b"caf\xe9", "latin-9000", OptionError, "encoding: 'latin-9000' is not known; known: utf-8, utf-16"),
        (b"caf\xe9", "rot13", OptionError, "is not known"),
        (b"caf\xe9", "un\0known", OptionError, "is not known"),
        (b"caf\xe9 \x81", "cp1252", ConservatorError, "not windows-1252: byte 5 is 0x81"),
        (b"caf\xe9", "ascii", ConservatorError, "not ascii: byte 3 is 0xe9"),
        (b"a\0b\0c", "utf-16", ConservatorError, "not utf-16-le: byte 4 is 0x63"),
        (b"caf\xe9", "unicode_escape", OptionError, "is not known"),
        (b"a\x1b(B", "iso2022_jp", ConservatorError, "not encoded to the same bytes"),
    ],
)
def test_invalid_encodings_are_refused(data, encoding, error, message):
    with pytest.raises(error, match=message):
        read_input(data, encoding)


def test_encodings_have_one_canonical_name():
    assert [check_encoding(name) for name in ("CP1252", "Windows-1252", "latin1", "UTF8", "utf-8-sig", "L9")] == [
        "windows-1252", "windows-1252", "iso-8859-1", "utf-8", "utf-8", "iso-8859-15"]  # fmt: skip
    assert read_input("\ufeffa".encode("utf-16-be"), "utf-16").encoding == "utf-16-be"
    assert read_input("a".encode("utf-16-be"), "utf-16").encoding == "utf-16-be"
    assert read_input("a".encode("utf-16-le"), "utf-16").data == b"a"
    assert read_input(NOISE, "latin-1").encoding == "iso-8859-1"
