"""OCR of scans: with the installed Tesseract, if there is one, and with fake programs that fail."""

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
from conservator.pages import draw_page, find_tesseract, read_pages, read_scan
from conservator.pages.scans import ocr
from conservator.pages.scans.images import crop_lines
from conservator.pages.scans.ocr import ScanConfig, join_pages
from support.word_changes import changes_between

pytestmark = pytest.mark.external_programs
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf"
LINES = ["The conservator reads", "what is left of a page.", "Nothing else is here."]
needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
# A fake Tesseract: reports a version and languages, and runs a shell command instead of OCR.
FAKE_PROGRAM = """#!/bin/sh
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


def draw(*lines):
    """An image with lines of text."""
    image = Image.new("L", (560, 190), 255)
    font = ImageFont.truetype(str(FONT), 30)
    ImageDraw.Draw(image).text((30, 25), "\n".join(lines), fill=0, font=font, spacing=14)
    return image


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


PNG = encode(Image.new("L", (60, 40), 255))


@pytest.fixture
def fake_tesseract(tmp_path, monkeypatch):
    """Put a fake Tesseract on the path."""

    def make(read="exit 0", version="tesseract 5.3.0"):
        program = tmp_path / "tesseract"
        program.write_text(FAKE_PROGRAM.format(version=version, read=read))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return program

    return make


@needs_tesseract
def test_ocr_of_an_image_with_characters():
    shares = []
    scan = encode(draw(*LINES[:2]), dpi=(200, 200))
    transcript = read_scan(scan, name='a "page" & b.png', progress=lambda stage, share: shares.append((stage, share)))
    assert transcript.text == "\n".join(LINES[:2]) + "\n"
    assert transcript.pages[0].image == "a 'page' & b.png"
    assert shares == [("reading", 0.0), ("reading", 1.0)]
    for word in transcript.words:
        assert "".join(glyph.text for glyph in word.glyphs) == word.text
        assert all(glyph.confidence > 0.5 and glyph.box for glyph in word.glyphs)
    assert any(glyph.alternatives for word in transcript.words for glyph in word.glyphs)
    [(_, line)] = crop_lines(scan, [transcript.lines[0].box])
    assert line.bottom - line.top < 60 < line.right - line.left
    changes = changes_between(transcript, transcript.text.replace("left", "right"))
    assert read_pages(transcript.apply_changes(changes)).words[5].text == "right"


@needs_tesseract
@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "WEBP", "BMP", "PPM", "GIF"])
def test_ocr_of_image_formats(kind):
    assert read_scan(encode(draw(LINES[0]), kind), layout="block").text == LINES[0] + "\n"


@needs_tesseract
def test_ocr_of_the_pages_of_a_tiff_file_and_of_a_pdf():
    """Both have the identifiers that Tesseract gives to pages of one file."""
    shares = []
    pdf = encode(draw(LINES[0]), "PDF", resolution=200, save_all=True, append_images=[draw(LINES[2])])
    tiff = encode(draw(LINES[0]), "TIFF", dpi=(200, 200), save_all=True, append_images=[draw(LINES[2])])
    of_pdf, of_tiff = read_scan(pdf, progress=lambda stage, share: shares.append(share)), read_scan(tiff)
    assert shares == [0.0, 0.0, 0.5, 1.0]
    for transcript in (of_pdf, of_tiff):
        assert transcript.text == f"{LINES[0]}\n\n{LINES[2]}\n"
        for expected in ("id='page_1'", "id='page_2'", "id='word_2_1'", "ppageno 1"):
            assert transcript.data.count(expected.encode()) == 1
    assert of_pdf.pages[0].box[2:] == pytest.approx((840, 285), abs=1)
    [(_, line)] = crop_lines(draw_page(pdf, 1), [of_pdf.lines[1].box])
    assert line.bottom - line.top < 90 < line.right - line.left
    with pytest.raises(ConservatorError, match="the document has 2 pages, page 3 does not exist"):
        draw_page(pdf, 2)


def draw_first_page(pdf):
    return draw_page(pdf, 0)


def make_pdf(*parts):
    """A PDF document of objects; the first is its root."""
    body = b"".join(b"%d 0 obj%b endobj\n" % (number, part) for number, part in enumerate(parts, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


def test_pdf_documents_that_cannot_be_read(fake_tesseract):
    fake_tesseract()
    for function in (read_scan, draw_first_page):
        with pytest.raises(ConservatorError, match="the PDF document cannot be read: Failed to load"):
            function(b"%PDF-1.4\nnothing")
    with pytest.raises(ConservatorError, match="not a PDF document"):
        draw_first_page(PNG)
    wide = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 14400 14400]>>"
    with pytest.raises(ConservatorError, match="page 1 is too large: it has 60,000 x 60,000 pixels, the limit is"):
        read_scan(make_pdf(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", wide))


def test_a_pdf_with_a_password_is_refused():
    lock = b"<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>" % (b"0" * 64, b"0" * 64)
    locked = make_pdf(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>", lock)
    with pytest.raises(ConservatorError, match="protected by a password; save it without a password"):
        draw_first_page(locked.replace(b"1 0 R>>\n%%", b"1 0 R/Encrypt 3 0 R/ID[<00><00>]>>\n%%"))


def test_the_error_names_the_missing_package_for_pdf(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(ConservatorError, match=r"pip install 'conservator\[scans\]'"):
        draw_first_page(b"%PDF-1.4\n")


def test_the_error_explains_how_to_install_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConservatorError, match=r"not installed\. Debian.*apt-get install.*brew install.*winget"):
        read_scan(PNG)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "PPM", "GIF"])
def test_a_broken_image_gives_an_error_without_tesseract(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("PATH", str(tmp_path))
    complete = encode(draw(*LINES), kind)
    for share in (0.5, 0.9):
        with pytest.raises(ConservatorError, match="image is broken"):
            read_scan(complete[: int(share * len(complete))])


def test_a_broken_later_page_gives_an_error_without_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    pages = encode(draw(*LINES), "TIFF", save_all=True, append_images=[draw(*LINES)])
    with pytest.raises(ConservatorError, match="the TIFF image is broken"):
        read_scan(pages[:-20_000])


def test_a_broken_pdf_gives_an_error_without_tesseract(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConservatorError, match="the PDF document cannot be read: Failed to load"):
        read_scan(b"%PDF-1.4\nnothing")
    small, wide = (b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d 100]>>" % width for width in (100, 2_000_000))
    pages = b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>"
    with pytest.raises(ConservatorError, match=r"page 2 is too large: it has .* pixels, the limit is"):
        read_scan(make_pdf(b"<</Type/Catalog/Pages 2 0 R>>", pages, small, wide))


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("tesseract 4.1.1", r"Tesseract 5\.0 or later is needed, .*tesseract is 4\.1\.1\. Debian"),
        ("tesseract v3.05", r"Tesseract 5\.0 or later is needed, .*tesseract is 3\.05\."),
        ("another program", "does not report a version of Tesseract: it wrote no output"),
    ],
)
def test_versions_that_are_refused(fake_tesseract, version, message):
    fake_tesseract(version=version)
    with pytest.raises(ConservatorError, match=message):
        find_tesseract()


@pytest.mark.parametrize("version", ["5.3.0", "v5.4.0.20240606", "6.0-beta"])
def test_versions_that_are_accepted(fake_tesseract, version):
    fake_tesseract(version=f"tesseract {version}")
    assert find_tesseract().version == version.removeprefix("v")


def test_languages(fake_tesseract):
    fake_tesseract(f"cat >/dev/null; cat <<'END'\n{HOCR}\nEND")
    assert find_tesseract().languages == ("eng", "osd")
    assert read_scan(PNG, language="eng+osd").text == "word_1\n"
    with pytest.raises(
        ConservatorError, match=r"language chi_sim .* not installed; installed: eng, osd\..*tesseract-ocr-chi-sim;"
    ):
        read_scan(PNG, language="eng+chi_sim")
    for language in ("", "../eng", "eng+", "-c"):
        with pytest.raises(ConservatorError, match="must be a name of Tesseract"):
            read_scan(PNG, language=language)
    with pytest.raises(ConservatorError, match="layout must be one of auto, column, block, got 'odd'"):
        read_scan(PNG, layout="odd")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("echo 'Error in pixRead: bad' >&2; exit 1", "^Tesseract could not read the image: Error in pixRead: bad$"),
        ("printf 'Warning: x\\nA line\\n  and  more\\n' >&2; exit 1", "image: A line; and more$"),
        ("exit 3", "it exited with code 3"),
        ("kill -9 $$", "it exited with code -9"),
        ("exit 0", "it wrote no output"),
        ("echo nonsense", "not XML, HTML or a table of Tesseract"),
        ("echo '<html><body>no page</body></html>'", "HTML without the classes of hOCR"),
        ("exec sleep 60", "did not finish within 1 seconds"),
    ],
)
def test_errors_of_tesseract_are_one_line(fake_tesseract, monkeypatch, read, message):
    monkeypatch.setattr(ocr, "CONFIG", ScanConfig(max_page_seconds=1.0 if "sleep" in read else 30.0))
    fake_tesseract(read)
    with pytest.raises(ConservatorError, match=message) as error:
        read_scan(PNG)
    assert "\n" not in str(error.value)


def test_a_program_that_cannot_be_run(fake_tesseract):
    fake_tesseract().write_text("#!/no/such/program\n")
    with pytest.raises(ConservatorError, match=r"cannot run .*tesseract: No such file"):
        read_scan(PNG)


def test_a_program_may_ignore_its_input(fake_tesseract):
    fake_tesseract(f"cat <<'END'\n{HOCR}\nEND")
    noise = Image.effect_noise((600, 600), 90)
    assert read_scan(encode(noise)).text == "word_1\n"


def test_an_interrupt_ends_tesseract(fake_tesseract, tmp_path):
    fake_tesseract(f"echo $$ >{tmp_path}/id; exec sleep 60")
    program = (
        "import signal, sys; from conservator.pages import read_scan; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell ignores it for background jobs
        "read_scan(sys.stdin.buffer.read())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdin.write(PNG)
        process.stdin.close()
        while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text().endswith("\n"):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.stderr.read()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


def test_the_error_names_the_type_of_other_files(fake_tesseract):
    fake_tesseract()
    with pytest.raises(NotTextError, match="the file is an SQLite database; accepted scans are PNG, JPEG"):
        read_scan(b"SQLite format 3\0\x10\0")


def test_pages_are_joined():
    joined = read_pages(join_pages([HOCR.encode()] * 3))
    assert [line.words[0].text for line in joined.lines] == ["word_1"] * 3
    assert [joined.data.count(b"id='word_%d_1'" % number) for number in (1, 2, 3)] == [1, 1, 1]
    with pytest.raises(ConservatorError, match="did not write hOCR for page 2"):
        join_pages([HOCR.encode(), b"nonsense"])
