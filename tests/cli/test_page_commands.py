"""``conservator restore`` with files of OCR engines and scans."""

import re
import shutil

import pytest

from commands import call
from conservator.channels import EditChannel

WORDS = ["The", "constable", "found", "tbe", "prisoner", "in", "the", "buming", "house."]
LIKE = "The constable found the prisoner in the burning house in the morning.\n" * 30
CHANNEL = EditChannel({("rn", "m"): 0.05, ("h", "b"): 0.03, ("n", "u"): 0.01}, {}, 0.97)


def hocr():
    spans = "".join(
        f"<span class='ocrx_word' title='bbox {60 * number} 10 {60 * number + 50} 30; x_wconf 90'>{word}</span> "
        for number, word in enumerate(WORDS)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title></title>'
        "<meta name='ocr-system' content='tesseract 5.3.0' /></head><body>"
        "<div class='ocr_page' title='bbox 0 0 640 480'><p class='ocr_par' title='bbox 0 0 600 30'>"
        f"<span class='ocr_line' id='line_1_1' title='bbox 0 0 600 30'>{spans}</span></p></div></body></html>\n"
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "page.hocr").write_text(hocr())
    (tmp_path / "like.txt").write_text(LIKE)
    (tmp_path / "court.json").write_text(CHANNEL.to_json())
    return tmp_path


def test_a_file_of_an_engine_is_corrected_in_place(folder):
    words = ("restore", "page.hocr", "--channel", "court.json", "--like", "like.txt")
    done = call(*words, "-o", "fixed.hocr", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "written as hOCR" in done.stderr
    fixed = (folder / "fixed.hocr").read_text()
    boxes = re.compile(r"bbox [\d ]+")
    assert boxes.findall(fixed) == boxes.findall(hocr())
    assert re.sub("<[^>]*>", "", fixed).split() == [
        word.replace("tbe", "the").replace("buming", "burning") for word in WORDS
    ]
    done = call(*words, "-o", "fixed.txt", cwd=folder)
    assert done.returncode == 0
    assert (folder / "fixed.txt").read_text() == "The constable found the prisoner in the burning house.\n"


def test_a_mark_is_filled_where_any_character_may_be_wrong(folder):
    (folder / "page.txt").write_text("The const?ble found tbe prisoner in the bu?ning house.\n")
    words = ("restore", "page.txt", "--channel", "court.json", "--like", "like.txt", "--mark", "?", "-o", "-")
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The constable found the prisoner in the burning house.\n"


def test_without_a_channel_it_is_one_of_ocr(folder):
    done = call("restore", "page.hocr", "-o", "fixed.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "found the prisoner" in (folder / "fixed.txt").read_text()


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="there is no Tesseract")
def test_a_scan_is_read_and_corrected(tmp_path):
    from conservator_studies.typeset import render

    (tmp_path / "scan.png").write_bytes(render("The house was built in the following year.", "prose")[0].image)
    done = call("restore", "scan.png", "-o", "scan.txt", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    assert (tmp_path / "scan.txt").read_text().strip() == "The house was built in the following year."
