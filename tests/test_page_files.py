"""Files of OCR engines given to the Python interface: their text is corrected, with their confidences."""

import re
from pathlib import Path

import pytest

from conservator import Restorer, restore
from conservator.errors import ConservatorError, OptionError
from conservator.pages import ocr_confidence_of, read_pages
from support.ocr_files import SAMPLES, WRITERS

WORDS = ["The", "constable", "found", "tbe", "prisoner", "in", "the", "burning", "house", "in", "the", "morning."]
RIGHT = " ".join(WORDS).replace("tbe", "the") + "\n"
LIKE = [("references", RIGHT * 30)]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_the_text_of_a_file_is_corrected(tmp_path, write):
    data = write([WORDS])
    (tmp_path / "page").write_bytes(data)
    for document in (data, tmp_path / "page"):
        found = restore(document, references=LIKE)
        assert found.text.split() == RIGHT.split()
        assert found.is_correction
    fitted = restore(data, references=LIKE, channel="ocr")
    assert fitted.text == found.text


def test_confidences_of_the_file_are_used():
    data = SAMPLES["tesseract.hocr"]
    transcript = read_pages(data)
    restorer = Restorer()
    wanted = restorer.restore(transcript.text, channel="ocr", trust=ocr_confidence_of(transcript))
    found = restorer.restore(data)
    assert (found.text, found.changes) == (wanted.text, wanted.changes)
    assert found.rate == wanted.rate


def test_a_text_stays_a_text():
    markup = SAMPLES["tesseract.hocr"].decode()
    assert restore(markup).text == markup


def test_what_does_not_fit_is_said(tmp_path):
    data = SAMPLES["tesseract.hocr"]
    with pytest.raises(OptionError, match=r"channel: 'replacement:0.1'; the document is hOCR.* 'ocr' or a fitted"):
        restore(data, channel="replacement:0.1")
    (tmp_path / "page.xml").write_bytes(b"<alto><Layout>")
    with pytest.raises(ConservatorError, match=r"page\.xml: "):
        restore(tmp_path / "page.xml")


def test_the_file_is_written_again_as_the_documentation_says(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "docs" / "ocr.md").read_text()
    program = re.search(r"To write the file again:\n\n```python\n(.*?)```", text, re.DOTALL).group(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.hocr").write_bytes(WRITERS["hOCR"]([WORDS]))
    exec(program, {})
    assert "data-original" in (tmp_path / "corrected.hocr").read_text()
    assert read_pages((tmp_path / "corrected.hocr").read_bytes()).text == RIGHT
