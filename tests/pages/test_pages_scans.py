"""Scans: the installed Tesseract where there is one, and stand-ins of it that fail in every way."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import pytest
from PIL import Image, ImageDraw, ImageFont

from conservator.errors import ConservatorError, NotTextError
from conservator.pages import crop_line, draw_page, find_tesseract, read_pages, read_scan, scans, text_layer
from conservator.pages.scans import join_pages

pytestmark = pytest.mark.external_programs
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf"
LINES = ["The conservator reads", "what is left of a page.", "Nothing else is here."]
needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
# What a stand-in does when it is asked for its version and its languages, and when it is to read.
ANSWERS = """#!/bin/sh
case "$1" in
--version) echo "{version}"; exit 0;;
--list-langs) echo 'List of available languages in "/usr/share/tessdata/" (2):'; echo eng; echo osd; exit 0;;
esac
{read}
"""
HOCR = """<html><head><title></title></head><body>
  <div class='ocr_page' id='page_1' title='image "stdin"; bbox 0 0 60 40; ppageno 0; scan_res 70 70'>
   <span class='ocr_line' id='line_1_1' title="bbox 1 2 30 20">
    <span class='ocrx_word' id='word_1_1' title='bbox 1 2 30 20; x_wconf 90'>word_1</span>
   </span>
  </div>
 </body></html>"""


def page(*lines):
    """A page with lines of text."""
    image = Image.new("L", (560, 190), 255)
    font = ImageFont.truetype(str(FONT), 30)
    ImageDraw.Draw(image).text((30, 25), "\n".join(lines), fill=0, font=font, spacing=14)
    return image


def saved(image, kind="PNG", **options):
    made = io.BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


PNG = saved(Image.new("L", (60, 40), 255))


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put a program on the path that is called as Tesseract is."""

    def make(read="exit 0", version="tesseract 5.3.0"):
        program = tmp_path / "tesseract"
        program.write_text(ANSWERS.format(version=version, read=read))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return program

    return make


@needs_tesseract
def test_an_image_with_characters():
    shares = []
    scan = saved(page(*LINES[:2]), dpi=(200, 200))
    found = read_scan(scan, name='a "page" & b.png', progress=lambda stage, share: shares.append((stage, share)))
    assert found.text == "\n".join(LINES[:2]) + "\n"
    assert found.pages[0].image == "a 'page' & b.png"
    assert shares == [("reading", 0.0), ("reading", 1.0)]
    for word in found.words:
        assert "".join(glyph.text for glyph in word.glyphs) == word.text
        assert all(glyph.confidence > 0.5 and glyph.box for glyph in word.glyphs)
    assert any(glyph.alternatives for word in found.words for glyph in word.glyphs)
    with Image.open(io.BytesIO(crop_line(scan, found.lines[0].box))) as line:
        assert line.height < 60 < line.width
    assert read_pages(found.with_text(found.changes(found.text.replace("left", "right")))).words[5].text == "right"


@needs_tesseract
@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "WEBP", "BMP", "PPM", "GIF"])
def test_kinds_of_images_by_words(kind):
    found = read_scan(saved(page(LINES[0]), kind), layout="block", symbols=False)
    assert found.text == LINES[0] + "\n"
    assert not any(word.glyphs for word in found.words)


@needs_tesseract
def test_pages_of_a_file_of_images_and_of_a_document():
    """Both have the ids that Tesseract gives to pages of one file."""
    shares = []
    pdf = saved(page(LINES[0]), "PDF", resolution=200, save_all=True, append_images=[page(LINES[2])])
    tiff = saved(page(LINES[0]), "TIFF", dpi=(200, 200), save_all=True, append_images=[page(LINES[2])])
    of_document, of_file = read_scan(pdf, progress=lambda stage, share: shares.append(share)), read_scan(tiff)
    assert shares == [0.0, 0.0, 0.5, 1.0]
    for found in (of_document, of_file):
        assert found.text == f"{LINES[0]}\n\n{LINES[2]}\n"
        for wanted in ("id='page_1'", "id='page_2'", "id='word_2_1'", "ppageno 1"):
            assert found.data.count(wanted.encode()) == 1
    assert of_document.pages[0].box[2:] == pytest.approx((840, 285), abs=1)
    with Image.open(io.BytesIO(crop_line(draw_page(pdf, 1), of_document.lines[1].box))) as line:
        assert line.height < 90 < line.width
    with pytest.raises(ConservatorError, match="no page 3 in the document; it has 2"):
        draw_page(pdf, 2)
    assert text_layer(pdf) == ""


def document(*parts):
    """A PDF document of parts, the first of which is its root."""
    body = b"".join(b"%d 0 obj%b endobj\n" % (number, part) for number, part in enumerate(parts, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


def test_the_text_behind_the_pages_of_a_document():
    stream = b"BT /F1 12 Tf 20 60 Td (rnodern) Tj 0 -20 Td (text recog-) Tj 0 -20 Td (nised) Tj ET"
    found = document(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 6 0 R 3 0 R]/Count 3>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>",
    )
    assert text_layer(found) == "rnodern\ntext recog-\nnised\n\nrnodern\ntext recog-\nnised\n"


def test_documents_that_cannot_be_read(stand_in):
    stand_in()
    for ask in (read_scan, text_layer):
        with pytest.raises(ConservatorError, match="the PDF document cannot be read: Failed to load"):
            ask(b"%PDF-1.4\nnothing")
    with pytest.raises(ConservatorError, match="not a PDF document"):
        text_layer(PNG)
    wide = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 14400 14400]>>"
    with pytest.raises(ConservatorError, match="page 1 has 60,000 x 60,000 pixels; at most"):
        read_scan(document(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", wide))


def test_a_locked_document():
    lock = b"<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>" % (b"0" * 64, b"0" * 64)
    locked = document(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>", lock)
    with pytest.raises(ConservatorError, match="locked by a password; save it without one"):
        text_layer(locked.replace(b"1 0 R>>\n%%", b"1 0 R/Encrypt 3 0 R/ID[<00><00>]>>\n%%"))


def test_without_the_package_for_documents(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(ConservatorError, match=r"pip install 'conservator\[scans\]'"):
        text_layer(b"%PDF-1.4\n")


def test_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConservatorError, match=r"not installed\. Debian.*apt-get install.*brew install.*winget"):
        read_scan(PNG)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "PPM", "GIF"])
def test_a_broken_image_is_found_broken_without_tesseract(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("PATH", str(tmp_path))
    whole = saved(page(*LINES), kind)
    for share in (0.5, 0.9):
        with pytest.raises(ConservatorError, match="image is broken"):
            read_scan(whole[: int(share * len(whole))])


def test_a_broken_later_page_is_found_without_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    pages = saved(page(*LINES), "TIFF", save_all=True, append_images=[page(*LINES)])
    with pytest.raises(ConservatorError, match="the TIFF image is broken"):
        read_scan(pages[:-20_000])


def test_a_broken_document_is_found_broken_without_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConservatorError, match="the PDF document cannot be read: Failed to load"):
        read_scan(b"%PDF-1.4\nnothing")
    small, wide = (b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d 100]>>" % width for width in (100, 2_000_000))
    pages = b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>"
    with pytest.raises(ConservatorError, match=r"page 2 has .* pixels; at most"):
        read_scan(document(b"<</Type/Catalog/Pages 2 0 R>>", pages, small, wide))


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("tesseract 4.1.1", r"is Tesseract 4\.1\.1; 5\.0 or later is needed\. Debian"),
        ("tesseract v3.05", r"is Tesseract 3\.05; 5\.0 or later"),
        ("another program", "does not say that it is Tesseract: it wrote nothing"),
    ],
)
def test_versions_that_are_refused(stand_in, version, message):
    stand_in(version=version)
    with pytest.raises(ConservatorError, match=message):
        find_tesseract()


@pytest.mark.parametrize("version", ["5.3.0", "v5.4.0.20240606", "6.0-beta"])
def test_versions_that_are_accepted(stand_in, version):
    stand_in(version=f"tesseract {version}")
    assert find_tesseract().version == version.removeprefix("v")


def test_languages(stand_in):
    stand_in(f"cat >/dev/null; cat <<'END'\n{HOCR}\nEND")
    assert find_tesseract().languages == ("eng", "osd")
    assert read_scan(PNG, language="eng+osd").text == "word_1\n"
    with pytest.raises(ConservatorError, match=r"no language chi_sim; installed: eng, osd\..*tesseract-ocr-chi-sim;"):
        read_scan(PNG, language="eng+chi_sim")
    for language in ("", "../eng", "eng+", "-c"):
        with pytest.raises(ConservatorError, match="no name of Tesseract's"):
            read_scan(PNG, language=language)
    with pytest.raises(ConservatorError, match="the layout 'odd'; auto, column, block are accepted"):
        read_scan(PNG, layout="odd")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("echo 'Error in pixRead: bad' >&2; exit 1", "^Tesseract could not read the image: Error in pixRead: bad$"),
        ("printf 'Warning: x\\nA line\\n  and  more\\n' >&2; exit 1", "image: A line; and more$"),
        ("exit 3", "it ended with code 3"),
        ("kill -9 $$", "it ended with code -9"),
        ("exit 0", "it wrote nothing"),
        ("echo nonsense", "neither XML nor HTML"),
        ("echo '<html><body>no page</body></html>'", "HTML without the classes of hOCR"),
        ("exec sleep 60", "given up after 1 seconds"),
    ],
)
def test_errors_are_one_line(stand_in, monkeypatch, read, message):
    monkeypatch.setattr(scans, "SECONDS", 1.0 if "sleep" in read else 30.0)
    stand_in(read)
    with pytest.raises(ConservatorError, match=message) as error:
        read_scan(PNG)
    assert "\n" not in str(error.value)


def test_a_program_that_cannot_be_run(stand_in):
    stand_in().write_text("#!/no/such/program\n")
    with pytest.raises(ConservatorError, match=r"cannot run .*tesseract: No such file"):
        read_scan(PNG)


def test_an_image_that_is_not_read_to_its_end(stand_in):
    stand_in(f"cat <<'END'\n{HOCR}\nEND")
    noise = Image.effect_noise((600, 600), 90)
    assert read_scan(saved(noise)).text == "word_1\n"


def test_nothing_is_left_running(stand_in, tmp_path):
    """An interrupt from the keyboard ends the work and Tesseract with it."""
    stand_in(f"echo $$ >{tmp_path}/id; exec sleep 60")
    program = (
        "import signal, sys; from conservator.pages import read_scan; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # in the background a shell has it ignored
        "read_scan(sys.stdin.buffer.read())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        running.stdin.write(PNG)
        running.stdin.close()
        while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text().endswith("\n"):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in running.stderr.read()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


def test_what_is_no_scan_is_named(stand_in):
    stand_in()
    with pytest.raises(NotTextError, match="the file is an SQLite database; PNG, JPEG"):
        read_scan(b"SQLite format 3\0\x10\0")


def test_pages_that_cannot_be_joined():
    joined = read_pages(join_pages([HOCR.encode()] * 3))
    assert [line.words[0].text for line in joined.lines] == ["word_1"] * 3
    assert [joined.data.count(b"id='word_%d_1'" % number) for number in (1, 2, 3)] == [1, 1, 1]
    with pytest.raises(ConservatorError, match="no hOCR for page 2"):
        join_pages([HOCR.encode(), b"nonsense"])
