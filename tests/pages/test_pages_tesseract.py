"""Output of the installed Tesseract: one page in three formats, and with confidences of characters."""

import os
import shutil
import subprocess
from pathlib import Path

import matplotlib
import pytest
from PIL import Image, ImageDraw, ImageFont

from conservator.pages import read_pages
from support.word_changes import changes_between

pytestmark = [
    pytest.mark.external_programs,
    pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed"),
]
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf"
TEXT = "The conservator reads\nwhat is left of a page.\n"


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Run Tesseract on the page with options; returns the files that it writes by their suffixes."""
    folder = tmp_path_factory.mktemp("tesseract")
    image = Image.new("L", (520, 140), 255)
    ImageDraw.Draw(image).text((30, 25), TEXT, fill=0, font=ImageFont.truetype(str(FONT), 30), spacing=14)
    image.save(folder / "page.png", dpi=(200, 200))

    def run(*options):
        out = folder / "-".join(options)
        command = ["tesseract", str(folder / "page.png"), str(out), "--psm", "6", *options]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_THREAD_LIMIT": "1"})
        return {path.suffix: path.read_bytes() for path in folder.glob(out.name + ".*")}

    return run


def test_three_formats_have_the_same_content(read):
    files = read("hocr", "alto", "tsv")
    hocr, alto, table = (read_pages(files[suffix]) for suffix in (".hocr", ".xml", ".tsv"))
    assert hocr.text == alto.text == table.text == TEXT
    assert "tesseract" in hocr.engine.lower()
    assert "tesseract" in alto.engine.lower()
    for hocr_word, alto_word, table_word in zip(hocr.words, alto.words, table.words, strict=True):
        assert hocr_word.box == alto_word.box == table_word.box
        assert hocr_word.confidence == alto_word.confidence == pytest.approx(table_word.confidence, abs=0.01)
    for transcript in (hocr, alto, table):
        corrected = TEXT.replace("conservator reads", "conserva torreads")
        changes = changes_between(transcript, corrected, 0.5)
        assert read_pages(transcript.apply_changes(changes)).text == corrected


@pytest.mark.parametrize("option", ["hocr_char_boxes=1", "lstm_choice_mode=1", "lstm_choice_mode=2"])
def test_glyphs_concatenate_to_their_word(read, option):
    transcript = read_pages(read("-c", option, "hocr")[".hocr"])
    assert transcript.text == TEXT
    for word in transcript.words:
        assert "".join(glyph.text for glyph in word.glyphs) == word.text
