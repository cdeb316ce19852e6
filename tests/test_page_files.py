"""Files of OCR engines in the Python API: their text is corrected with their confidences."""

import re
from pathlib import Path

import pytest

from conservator import Restorer, restore
from conservator.errors import ConservatorError, OptionError
from conservator.pages import ocr_confidence_of, read_pages
from support.ocr_files import SAMPLES, WRITERS

WORDS = ["The", "constable", "found", "tbe", "prisoner", "in", "the", "burning", "house", "in", "the", "morning."]
RIGHT = " ".join(WORDS).replace("tbe", "the") + "\n"
REFERENCES = [("references", RIGHT * 30)]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_the_text_of_a_file_is_corrected(tmp_path, write):
    data = write([WORDS])
    (tmp_path / "page").write_bytes(data)
    for document in (data, tmp_path / "page"):
        result = restore(document, references=REFERENCES)
        assert result.text.split() == RIGHT.split()
        assert result.is_correction
    fitted = restore(data, references=REFERENCES, channel="ocr")
    assert fitted.text == result.text


def test_confidences_of_the_file_are_used():
    data = SAMPLES["tesseract.hocr"]
    transcript = read_pages(data)
    restorer = Restorer()
    expected = restorer.restore(transcript.text, channel="ocr", ocr_confidence=ocr_confidence_of(transcript))
    result = restorer.restore(data)
    assert (result.text, result.changes) == (expected.text, expected.changes)
    assert result.rate == expected.rate


def test_a_string_is_text_even_if_it_contains_markup():
    markup = SAMPLES["tesseract.hocr"].decode()
    assert restore(markup).text == markup


def test_invalid_channels_and_files_are_refused(tmp_path):
    data = SAMPLES["tesseract.hocr"]
    with pytest.raises(
        OptionError, match=r"channel: must be 'ocr' or another channel .*the document is hOCR.*'replacement:0.1'"
    ):
        restore(data, channel="replacement:0.1")
    (tmp_path / "page.xml").write_bytes(b"<alto><Layout>")
    with pytest.raises(ConservatorError, match=r"page\.xml: "):
        restore(tmp_path / "page.xml")


def test_the_file_is_written_as_the_documentation_says(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "docs" / "ocr.md").read_text()
    program = re.search(r"To write the file back:\n\n```python\n(.*?)```", text, re.DOTALL).group(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.hocr").write_bytes(WRITERS["hOCR"]([WORDS]))
    exec(program, {})
    assert "data-original" in (tmp_path / "corrected.hocr").read_text()
    assert read_pages((tmp_path / "corrected.hocr").read_bytes()).text == RIGHT
