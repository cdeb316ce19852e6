"""OCR files as pages, lines and words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conservator.errors import ConservatorError, NotTextError
from conservator.pages import Box, FileLimits, Glyph, TextAlternative, detect_ocr_format, read_pages
from support.ocr_files import SAMPLES, WRITERS, format_of
from support.word_changes import changes_between

READ = """\
The reader of a damaged page sees what is
left of-it, and guesses what was there: a-con-

servator does the same “with care” & patience.

A second paragraph, .of 1879, is shorter.
"""
TEXTS = {
    "abbyy.alto.xml": "tlie patient con-\nservator readsthe li ne &c.\n\nAnno I879\n",
    "glyphs.alto.xml": "modem times\n",
    "glyphs.page.xml": "cn pleinair pa inted\n\na region of\ntwo lines\n",
    "transkribus.page.xml": "My dear fricnd, the parcel\ncame to-day.\n\nwith kind regards & haste\n",
    "ocrmypdf.hocr": "Tbe Gardener's alma nac\nofthe ye ar\n\ncosts £l\n\nFarewell.\n",
    "lines.hocr.html": "The nnorning was colcl & gray;\nnobody carne to the café\n\nbut the cat.\n",
    "tesseract.hocr": READ,
    "tesseract.alto.xml": READ,
    "tesseract.tsv": READ,
    "characters.hocr": "~amodern page, read\n",
    "choices.hocr": "~amodern page, read\n",
    "both.hocr": "~amodern page, read\n",
    "steps.hocr": "~amodern page, read\n",
}
# Words without whitespace, of characters that XML allows.
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)


def words_of(name):
    return {word.text: word for word in read_pages(SAMPLES[name]).words}


def test_every_sample_has_an_expected_text():
    assert set(TEXTS) == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_as_text(name):
    transcript = read_pages(SAMPLES[name])
    assert transcript.text == TEXTS[name]
    assert transcript.format == detect_ocr_format(SAMPLES[name]) == format_of(name)


@pytest.mark.parametrize("name", SAMPLES)
def test_spans_are_the_words_of_the_text(name):
    transcript = read_pages(SAMPLES[name])
    text = transcript.text
    assert [text[start:stop] for start, stop in transcript.spans] == [word.text for word in transcript.words]
    positions = {position for span in transcript.spans for position in range(*span)}
    assert all(text[position].isspace() for position in range(len(text)) if position not in positions)


def test_boxes_confidences_and_images():
    page = read_pages(SAMPLES["ocrmypdf.hocr"]).pages[0]
    assert (page.image, page.box) == ("000001; first.png", Box(0, 0, 1240, 1754))
    assert page.lines[0].box == Box(90, 100, 1100, 140)
    first = page.lines[0].words[0]
    assert (first.confidence, first.box) == (0.94, Box(90, 100, 180, 140))
    page = read_pages(SAMPLES["transkribus.page.xml"]).pages[0]
    assert (page.image, page.box) == ("letter 01.jpg", Box(0, 0, 2000, 3000))
    assert page.lines[0].words[0].confidence == 0.83
    assert page.lines[2].box == Box(100, 900, 1800, 1000)
    transcript = read_pages(SAMPLES["tesseract.tsv"])
    assert transcript.words[0].box == Box(40, 45, 92, 66)
    assert transcript.words[0].confidence == pytest.approx(0.96736916)
    assert transcript.lines[0].box == Box(40, 45, 656, 72)


def test_engines_and_units():
    def metadata(name):
        transcript = read_pages(SAMPLES[name])
        return transcript.engine, transcript.unit

    assert metadata("abbyy.alto.xml") == ("FineReader", "mm10")
    assert metadata("glyphs.alto.xml") == (None, "pixel")
    assert metadata("tesseract.alto.xml") == ("tesseract 5.3.0", "pixel")
    assert metadata("transkribus.page.xml") == ("Transkribus", "pixel")
    assert metadata("tesseract.hocr") == ("tesseract 5.3.0", "pixel")


def test_tesseract_writes_percentages_after_a_point():
    confidences = [word.confidence for word in read_pages(SAMPLES["tesseract.alto.xml"]).words]
    rounded = [word.confidence for word in read_pages(SAMPLES["tesseract.hocr"]).words]
    assert confidences == rounded
    for written, expected in [("0.9", 0.09), ("0.90", 0.9), ("0.100", 1.0), ("0.0", 0.0), ("1", 1.0), ("0.123", 0.123)]:
        data = SAMPLES["tesseract.alto.xml"].replace(b'WC="0.96"', f'WC="{written}"'.encode(), 1)
        assert read_pages(data).words[0].confidence == expected
        other_engine = data.replace(b"tesseract 5.3.0", b"another")
        assert read_pages(other_engine).words[0].confidence == pytest.approx(
            float(written) if written != "0.100" else 0.1
        )


def test_glyphs_and_their_variants():
    modern = words_of("glyphs.alto.xml")["modem"]
    assert [glyph.text for glyph in modern.glyphs] == list("modem")
    assert modern.glyphs[-1] == Glyph(
        "m", 0.41, Box(67, 10, 90, 30), (TextAlternative("rn", 0.39), TextAlternative("nn", 0.05))
    )
    word = words_of("glyphs.page.xml")["cn"]
    assert word.confidence == 0.64
    assert word.glyphs[0] == Glyph("c", 0.5, Box(10, 10, 50, 38), (TextAlternative("e", 0.4),))
    tlie = words_of("abbyy.alto.xml")["tlie"]
    assert [round(9 * (1 - glyph.confidence)) for glyph in tlie.glyphs] == [0, 2, 9, 0]


@pytest.mark.parametrize("name", ["characters.hocr", "choices.hocr", "both.hocr", "steps.hocr"])
def test_confidences_and_alternatives_of_characters_in_hocr(name):
    for word in read_pages(SAMPLES[name]).words:
        assert "".join(glyph.text for glyph in word.glyphs) == word.text
        assert sum(glyph.confidence is not None for glyph in word.glyphs) >= len(word.text) - 1
        assert all((glyph.box is not None) == (name in ("characters.hocr", "both.hocr")) for glyph in word.glyphs)
    words = read_pages(SAMPLES[name]).words
    alternatives = [alternative for word in words for glyph in word.glyphs for alternative in glyph.alternatives]
    assert bool(alternatives) == (name != "characters.hocr")
    assert all(alternative.text and 0 <= alternative.confidence <= 1 for alternative in alternatives)


def test_a_list_of_choices_without_the_character_is_ignored():
    """Tesseract 5.3 gives 8 of 16,696 characters a list without the character itself."""
    characters = "".join(
        f"<i class='ocrx_cinfo' title='x_bboxes 1 2 3 4; x_conf 97'>{character}</i>"
        "<i class='ocrx_cinfo' id='lstm_choices_1'>"
        f"<i class='ocrx_cinfo' title='x_confs 90'>{choice}</i><i class='ocrx_cinfo' title='x_confs 3'>o</i></i>"
        for character, choice in (("g", "g"), ("u", "q"))
    )
    (word,) = read_pages(f"<html><body><b class='ocrx_word'>{characters}</b></body></html>".encode()).words
    assert [(glyph.text, glyph.confidence) for glyph in word.glyphs] == [("g", 0.97), ("u", 0.97)]
    assert [glyph.alternatives for glyph in word.glyphs] == [(("o", 0.03),), ()]


def test_parts_of_a_hyphenated_word_have_the_complete_word():
    words = words_of("abbyy.alto.xml")
    assert words["con-"].whole == words["servator"].whole == "conservator"
    assert words["tlie"].whole is None


def test_alternatives_of_a_word_are_not_its_text():
    data = SAMPLES["tesseract.hocr"].replace(
        b">damaged<",
        b"><span class='alternatives'><ins class='alt'>damaged</ins><del class='alt'>darnaged</del></span><",
    )
    assert read_pages(data).words[4].text == "damaged"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8", "iso-8859-1", "windows-1252"])
@pytest.mark.parametrize("with_mark", [True, False])
def test_encodings(encoding, with_mark):
    text = SAMPLES["ocrmypdf.hocr"].decode().replace('encoding="UTF-8"', f'encoding="{encoding}"').replace("-le", "")
    mark = "\ufeff" if with_mark and encoding.startswith("utf") else ""
    transcript = read_pages((mark + text).encode(encoding))
    assert transcript.text == TEXTS["ocrmypdf.hocr"]
    changed = transcript.apply_changes(changes_between(transcript, transcript.text.replace("£l", "£1 ☃")))
    assert changed.decode(encoding).startswith(mark + "<?xml")
    assert read_pages(changed).words[-2].text == "☃"


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=40)
@given(lines=st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_written_file_is_read_back(kind, lines):
    transcript = read_pages(WRITERS[kind](lines))
    assert transcript.format == kind
    assert [[word.text for word in line.words] for line in transcript.lines] == lines
    assert transcript.text == "".join(" ".join(line) + "\n" for line in lines)
    for number, line in enumerate(transcript.lines):
        for index, word in enumerate(line.words):
            assert word.confidence == 0.5
            assert word.box == Box(10 * index, 10 * number, 10 * index + 9, 10 * number + 9)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n....", "a PNG image"),
        (b"%PDF-1.7\n\xff", "a PDF document"),
        (b"just text", "not XML, HTML or a table of Tesseract"),
        (b"", "not XML, HTML or a table of Tesseract"),
        (b"<html><body>Hello</body></html>", "HTML without the classes"),
        (b"<mets:mets xmlns:mets='x'/>", "a METS file"),
        (b"<svg/>", "an SVG image"),
        (b"<?xml version='1.0'?><!-- x --><recipe/>", "its root is <recipe>"),
        (b"level\tpage\n1\t2\n", "not XML, HTML or a table"),
    ],
)
def test_the_error_names_the_type_of_other_files(data, message):
    assert detect_ocr_format(data) is None
    with pytest.raises(ConservatorError, match="accepted OCR files are hOCR, ALTO, PAGE and TSV of Tesseract") as error:
        read_pages(data)
    assert message in str(error.value)
    assert isinstance(error.value, NotTextError) == message.startswith(("a PNG", "a PDF"))


def test_limits():
    data = SAMPLES["tesseract.alto.xml"]
    for limits, message in [
        (FileLimits(max_bytes=100), "bytes, the limit is 100 bytes"),
        (FileLimits(max_elements=20), "more than 20 elements"),
        (FileLimits(max_depth=3), "nested more than 3 levels deep"),
        (FileLimits(max_attribute_chars=10), "characters, the limit is 10"),
    ]:
        with pytest.raises(ConservatorError, match=message):
            read_pages(data, limits)
    with pytest.raises(ConservatorError, match="more than 5 rows"):
        read_pages(SAMPLES["tesseract.tsv"], FileLimits(max_elements=5))
