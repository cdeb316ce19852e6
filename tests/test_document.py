"""Documents: opened from text, files of any encoding and files of OCR engines, and written back in the same format."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conservator import RestoreOptions, restore
from conservator.document import UNNAMED, Document, open_document
from conservator.documents import splice
from conservator.errors import ConservatorError, NotTextError, OptionError
from conservator.experts import Cost
from conservator.pages import ocr_confidence_of, read_pages
from conservator.results import Edit, Restoration
from support.fakes import FakeExpert, TextExpert
from support.ocr_files import SAMPLES, WRITERS, format_of

MARK = "\ufffd"
EXPERTS = [FakeExpert(0)]
FRENCH = "L’été dernier, à Orléans, le garçon a mangé une crêpe au café ; c’était très bon, dit-il.\r\n"  # noqa: RUF001
GERMAN = "Die Größe des Hauses überraschte uns: fünf Räume, ein Flur, eine Küche für 30 €.\n"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"
LINES = [["Die", "Größe", "tbe", "house"], ["für", "30", "€", "&", "<more>"]]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"
FILES = [
    (FRENCH, "utf-8", "utf-8"),
    (f"\ufeff{FRENCH}", "utf-8", "utf-8"),
    (FRENCH, "cp1252", "windows-1252"),
    (GERMAN, "utf-16-le", "utf-16-le"),
    (f"\ufeff{RUSSIAN}", "utf-16-be", "utf-16-be"),
    (f"\ufeff{FRENCH}", "utf-32-le", "utf-32-le"),
    (RUSSIAN, "koi8-r", "koi8-u"),
    ("one\r\ntwo\rthree\n\n", "utf-8", "utf-8"),
    ("", "utf-8", "utf-8"),
]


def corrected(document, *edits):
    """Return the result of correcting a document with these edits."""
    return Restoration(observed=document.data, edits=edits, experts=("prose",), rate=1.0, cost=Cost())


@pytest.mark.parametrize(("text", "codec", "encoding"), FILES)
def test_an_undamaged_file_comes_back_byte_for_byte(tmp_path, text, codec, encoding):
    data = text.encode(codec)
    path = tmp_path / "file.txt"
    path.write_bytes(data)
    for source in (data, path):
        document = open_document(source)
        assert document.data == text.encode()
        assert (document.encoding, document.encoding_detected, document.source) == (encoding, True, data)
        assert document.transcript is document.ocr_confidence is None
        result = restore(document, EXPERTS)
        assert result.encoding == encoding
        assert document.encode(result) == document.encode(result, text_only=True) == data
        document.write(result, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == data


@given(st.text(max_size=30), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le"]))
@example("\ufeffa\r\n", "utf-16-le")
@example("caf\u00e9", "windows-1252")
def test_text_without_damage_keeps_its_bytes_in_a_given_encoding(text, encoding):
    try:
        document = open_document(text.replace(MARK, "").encode(encoding), RestoreOptions(encoding=encoding))
    except ConservatorError:  # control characters or a signature of another file type
        return
    assert not document.encoding_detected
    assert document.encode(
        Restoration(observed=document.data, experts=(), cost=Cost(), encoding=document.encoding)
    ) == (document.source)


@pytest.mark.parametrize("text", ["", "as it is", "caf\u00e9\r\n", f"\ufeff{MARK}", SAMPLES["tesseract.hocr"].decode()])
def test_a_string_is_text(text):
    document = open_document(text)
    assert document == Document(text.encode(), source=text.encode())
    assert (document.name, document.encoding, document.encoding_detected) == (UNNAMED, "utf-8", False)
    assert open_document(text, name="row 3").name == "row 3"


@pytest.mark.parametrize("codec", ["cp1252", "utf-16-le", "utf-8"])
def test_a_damaged_file_is_written_in_its_encoding(codec):
    mark = MARK.encode(codec if codec != "cp1252" else "utf-8")
    lost = "Räume".encode(codec)
    document = open_document(GERMAN.encode(codec).replace(lost, "R".encode(codec) + mark + "ume".encode(codec)))
    position = document.data.index(MARK.encode())
    result = restore(document, EXPERTS, fixed=[(position, position + 3, "ä")])
    assert document.encode(result) == GERMAN.encode(codec)
    if codec == "cp1252":  # it has no such character, so that the text becomes UTF-8
        result = restore(document, EXPERTS, fixed=[(position, position + 3, "ж")])
        assert document.encode(result) == GERMAN.replace("Räume", "Rжume").encode()


def test_a_document_is_restored_like_its_source():
    text = "the quick brown fox jumps over the lazy dog; " * 3
    damaged = text.replace("quick", f"qu{MARK}ck")
    document = open_document(damaged.encode())
    result = restore(document, [TextExpert(text)])
    assert result.text == restore(damaged, [TextExpert(text)]).text == text
    assert document.encode(result) == text.encode()
    assert document.character_spans(result) == [(6, 7), (51, 52), (96, 97)]


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_an_ocr_engine_is_opened_and_written(tmp_path, name):
    data = WRITERS[name](LINES)
    path = tmp_path / "page"
    path.write_bytes(data)
    document = open_document(path)
    transcript = document.transcript
    assert document.data == transcript.text.encode()
    assert transcript.text.split() == [word for line in LINES for word in line]
    assert len(document.ocr_confidence) == len(transcript.text)
    assert (document.encoding, document.source, document.name) == (
        "utf-8",
        data,
        open_document(data, name=document.name).name,
    )
    assert document.encode(corrected(document)) == data
    start = document.data.index(b"tbe")
    result = corrected(
        document,
        Edit((start + 1, start + 2), b"h", 0.9, 2.0),
        Edit((start + 4, start + 9), "Häuser".encode(), 0.8, 1.0),
    )
    position = transcript.text.index("tbe")
    assert document.character_spans(result) == [(position + 1, position + 2), (position + 4, position + 9)]
    written = document.encode(result)
    assert read_pages(written).text == result.text == transcript.text.replace("tbe house", "the Häuser")
    assert result.text.split() == document.encode(result, text_only=True).decode().split()
    document.write(result, tmp_path / "page.out")
    document.write(result, tmp_path / "page.txt")
    assert (tmp_path / "page.out").read_bytes() == written
    assert (tmp_path / "page.txt").read_bytes() == document.encode(result, text_only=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_without_corrections_comes_back_byte_for_byte(name):
    data = SAMPLES[name]
    document = open_document(data, name=name)
    assert document.transcript.format.startswith(format_of(name))
    assert document.encode(corrected(document)) == data
    expected, confidence = ocr_confidence_of(document.transcript), document.ocr_confidence
    assert (confidence is None) == (expected is None)
    if confidence is not None:
        assert len(confidence) == len(expected) == len(document.transcript.text)
        assert confidence.correct.tolist() == expected.correct.tolist()


words = st.text("abé€日😀", min_size=1, max_size=4)


@given(
    st.lists(st.lists(words, min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from(sorted(WRITERS)),
    st.data(),
)
def test_corrected_words_are_written_to_the_file(lines, name, data):
    document = open_document(WRITERS[name](lines))
    text, spans = document.transcript.text, document.transcript.spans
    selected = [span for span in spans if data.draw(st.booleans())]
    changes = [(start, stop, data.draw(words)) for start, stop in selected]
    edits = (
        Edit((len(text[:start].encode()), len(text[:stop].encode())), new.encode(), 0.9) for start, stop, new in changes
    )
    result = corrected(document, *edits)
    assert result.text == splice(text, changes)
    assert document.character_spans(result) == selected
    assert read_pages(document.encode(result)).text == result.text


def test_an_ocr_file_selects_an_ocr_channel():
    document, text = open_document(WRITERS["hOCR"](LINES), name="page.hocr"), open_document("text")
    assert document.select_channel(RestoreOptions()).channel == "ocr"
    with pytest.raises(OptionError, match=r"channel: must be 'ocr' or another channel .*\(page\.hocr is hOCR\), got"):
        document.select_channel(RestoreOptions(channel="replacement:0.1"))
    for channel in ("mask", "replacement:0.1", "ocr"):
        options = RestoreOptions(channel=channel)
        assert text.select_channel(options) is options


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x7fELF\2\1\1" + bytes(64), "data.bin is "),
        (bytes(range(32)) * 20, "data.bin is binary data, not text"),
        (PNG, "data.bin is a PNG image, not text"),
    ],
)
def test_a_binary_file_is_refused_with_its_name(tmp_path, data, problem):
    (tmp_path / "data.bin").write_bytes(data)
    for source, name in ((data, "data.bin"), (tmp_path / "data.bin", None)):
        with pytest.raises(NotTextError, match=problem):
            open_document(source, name=name, read_scans=False)


def test_a_scan_that_cannot_be_read_is_refused_with_its_name():
    with pytest.raises(ConservatorError, match=r"scan\.png: "):
        open_document(PNG, name="scan.png")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(ConservatorError, match=r"cannot read .*nowhere"):
        open_document(tmp_path / "nowhere")
    (tmp_path / "page.xml").write_bytes(b"<alto><Layout>")
    with pytest.raises(ConservatorError, match=r"page\.xml: "):
        open_document(tmp_path / "page.xml")


def test_standard_input_is_read(monkeypatch):
    data = GERMAN.encode("cp1252")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    document = open_document(Path("-"))
    assert (document.name, document.encoding, document.source) == ("standard input", "windows-1252", data)
