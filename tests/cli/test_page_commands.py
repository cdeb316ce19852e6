"""``conservator restore`` with OCR files and scans."""

import io
import json
import re
import shutil

import pytest
from PIL import Image

from conservator.channels import EditChannel
from conservator.pages import read_pages
from support.commands import call
from support.ocr_files import WRITERS

WORDS = ["The", "constable", "found", "tbe", "prisoner", "in", "the", "buming", "house."]
REFERENCE = "The constable found the prisoner in the burning house in the morning.\n" * 30
CHANNEL = EditChannel({("rn", "m"): 0.05, ("h", "b"): 0.03, ("n", "u"): 0.01}, {}, 0.97)
FITTED = ("--channel", "court.json", "--reference", "like.txt")


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
    (tmp_path / "like.txt").write_text(REFERENCE)
    (tmp_path / "court.json").write_text(CHANNEL.to_json())
    return tmp_path


def test_an_ocr_file_is_corrected(folder):
    words = ("restore", "page.hocr", *FITTED)
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


def test_marks_in_ocr_text_are_filled(folder):
    (folder / "page.txt").write_text("The const?ble found tbe prisoner in the bu?ning house.\n")
    words = ("restore", "page.txt", "--channel", "court.json", "--reference", "like.txt", "--mark", "?", "-o", "-")
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The constable found the prisoner in the burning house.\n"


def test_the_default_channel_of_ocr_files_is_ocr(folder):
    done = call("restore", "page.hocr", "-o", "fixed.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "found the prisoner" in (folder / "fixed.txt").read_text()


def test_every_change_has_its_probability_and_its_original_in_the_file(folder):
    for kind, write in WRITERS.items():
        (folder / kind).write_bytes(write([WORDS]))
        done = call("restore", kind, *FITTED, "-o", f"fixed.{kind}", "--json", f"{kind}.json", cwd=folder)
        assert done.returncode == 0, done.stderr
        pieces = json.loads((folder / f"{kind}.json").read_text())["pieces"]
        changes = [piece for piece in pieces if "origin" in piece]
        words = read_pages((folder / f"fixed.{kind}").read_bytes()).words
        changed = [word for word in words if word.original is not None]
        assert [(word.original, word.text) for word in changed] == [("tbe", "the"), ("buming", "burning")]
        for word, change in zip(changed, changes, strict=True):
            assert word.confidence == pytest.approx(change["probability"], abs=0.006)
        assert all(word.confidence == 0.5 for word in words if word.original is None)


def test_the_summary_lists_the_corrections(folder):
    done = call("restore", "page.hocr", *FITTED, "-o", "fixed.hocr", cwd=folder)
    assert "3 of 54 characters changed (5.6 %), in 2 corrections" in done.stdout
    assert re.search(r"line 1: tbe -> the  \(confidence over 99 %(, log-odds \d+\.\d)?\)", done.stdout)
    assert "line 1: buming -> burning  (confidence over 99 %" in done.stdout
    assert "lost" not in done.stdout


def pictures(page):
    record = json.loads(re.search(r'id="record">(.*?)</script>', page.read_text(), re.DOTALL).group(1))
    return record.get("pictures", [])


def test_a_report_shows_the_lines_of_an_image_beside_the_file(folder):
    drawn = io.BytesIO()
    Image.new("RGB", (640, 480), "white").save(drawn, "PNG")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for path in (folder / "page 1.png", elsewhere / "other.png"):
        path.write_bytes(drawn.getvalue())
    for named, count in [("scans/page 1.png", 1), (str(elsewhere / "other.png"), 0), ("like.txt", 0), ("..", 0)]:
        (folder / "named.hocr").write_text(hocr().replace("bbox 0 0 640 480", f'image "{named}"; bbox 0 0 640 480'))
        done = call("restore", "named.hocr", *FITTED, "-o", "x.txt", "--report", "x.html", "-f", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert len(pictures(folder / "x.html")) == count
    (folder / "page 1.png").write_bytes(drawn.getvalue()[:60])
    (folder / "named.hocr").write_text(hocr().replace("bbox 0 0 640 480", 'image "page 1.png"; bbox 0 0 640 480'))
    done = call("restore", "named.hocr", *FITTED, "-o", "x.txt", "--report", "x.html", "-f", cwd=folder)
    assert done.returncode == 0
    assert "the report has no pictures of lines: the PNG image is broken" in done.stderr


def test_a_byte_channel_is_rejected_for_ocr_files(folder):
    done = call("restore", "page.hocr", "--channel", "replacement:0.05", cwd=folder)
    assert done.returncode == 2
    assert "must be 'ocr' or another channel" in re.sub(r"[\s│]+", " ", done.stderr)


def test_a_correction_loads_no_networks(folder, monkeypatch):
    def load_experts(*_, **__):
        raise AssertionError("networks are loaded")

    monkeypatch.setattr("conservator.experts.load_experts", load_experts)
    monkeypatch.setattr("conservator.pipelines.task.load_experts", load_experts)
    assert call("restore", "page.hocr", *FITTED, "-o", "x.txt", cwd=folder).returncode == 0
    with pytest.raises(AssertionError, match="networks"):
        call("restore", "like.txt", "-o", "y.txt", cwd=folder)


def test_a_page_without_errors_is_unchanged(folder):
    clean = hocr().replace("tbe", "the").replace("buming", "burning")
    (folder / "clean.hocr").write_text(clean)
    done = call("restore", "clean.hocr", *FITTED, "-o", "same.hocr", "--report", "same.html", cwd=folder)
    assert done.returncode == 0
    assert "nothing to correct: no character of clean.hocr has a more probable alternative" in done.stderr
    assert (folder / "same.hocr").read_text() == clean


def test_text_that_no_model_covers_is_unchanged(folder):
    text = "Der Fluss führte so viel Wasser, daß die Brücke gesperrt werden mußte, und die Bürger gingen zu Fuß.\n" * 2
    (folder / "german.txt").write_text(text)
    done = call("restore", "german.txt", "--channel", "ocr", "-o", "same.txt", "--json", "same.json", cwd=folder)
    assert done.returncode == 5
    assert "german.txt: the models do not cover the language or kind of this text" in done.stderr
    assert (folder / "same.txt").read_text() == text
    assert [notice["kind"] for notice in json.loads((folder / "same.json").read_text())["notices"]] == [
        "unknown_language"
    ]


@pytest.mark.external_programs
@pytest.mark.skipif(shutil.which("tesseract") is None, reason="there is no Tesseract")
def test_a_scan_is_read_and_corrected(tmp_path):
    from conservator_studies.typeset import draw

    (tmp_path / "scan.png").write_bytes(draw(["The house was built in the following year."], "prose"))
    done = call("restore", "scan.png", "-o", "scan.txt", "--report", "scan.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scan.txt").read_text().strip() == "The house was built in the following year."
