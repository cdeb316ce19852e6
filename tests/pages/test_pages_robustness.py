"""Broken and hostile files give a ConservatorError or a valid result, never another exception."""

import random
import zlib

import pytest

from conservator.errors import ConservatorError
from conservator.pages import WordChange, read_pages
from support.ocr_files import SAMPLES, WRITERS, format_of, mutate, rearrange

NAMES = zip("abcdefghi", "bcdefghij", strict=True)
ENTITIES = "".join(f'<!ENTITY {name} "{10 * f"&{before};"}">' for before, name in NAMES)
BOMB = (
    f'<?xml version="1.0"?><!DOCTYPE alto [<!ENTITY a "aaaaaaaaaa">{ENTITIES}]>'
    '<alto><Layout><Page><TextLine><String CONTENT="&j;"/></TextLine></Page></Layout></alto>'
)
ALTO = (
    "<alto><Layout><Page><TextLine><String CONTENT='a' HPOS='%s' VPOS='1' WIDTH='1' HEIGHT='1'/></TextLine></Page>"
    "</Layout></alto>"
)
HOCR = (
    "<html><div class='ocr_page'><span class='ocr_line'><span class='ocrx_word' title='bbox %s 1 2 3'>a</span></span>"
    "</div></html>"
)
PAGE = (
    "<PcGts><Page><TextRegion><TextLine><Word><Coords points='%s,1 2,3'/><TextEquiv><Unicode>a</Unicode></TextEquiv>"
    "</Word></TextLine></TextRegion></Page></PcGts>"
)
HEADER = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
TSV = HEADER + "5\t1\t1\t1\t1\t1\t%s\t1\t1\t1\t90\ta\n"


def is_readable(data):
    """Read a file, change it and read the result, or get a ConservatorError. Returns whether it could be read."""
    try:
        transcript = read_pages(data)
    except ConservatorError:
        return False
    assert [transcript.text[start:stop] for start, stop in transcript.spans] == [word.text for word in transcript.words]
    assert all(0 <= word.confidence <= 1 for word in transcript.words if word.confidence is not None)
    assert transcript.apply_changes([]) == data
    if transcript.words:
        middle = len(transcript.words) // 2
        has_next = middle + 1 < len(transcript.words) and transcript.line_of(middle) == transcript.line_of(middle + 1)
        check(transcript, middle, middle + 1, "cor rected")
        check(transcript, middle, middle + 2 if has_next else middle + 1, "joined")
        check(transcript, 0, 1, "")
    return True


def check(transcript, start, stop, text):
    """Change words: the file is read with these words changed, and with all other words."""
    result = read_pages(transcript.apply_changes([WordChange(start, stop, text, 0.5)]))
    texts = [word.text for word in transcript.words]
    expected = [*texts[:start], *text.split(), *texts[stop:]]
    assert " ".join(word.text for word in result.words) == " ".join(expected)
    assert len(result.pages) == len(transcript.pages)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("change", [mutate, rearrange])
def test_mutated_files(name, change):
    generator = random.Random(zlib.crc32(name.encode()))
    count = 150 // sum(format_of(other) == format_of(name) for other in SAMPLES) + 1
    readable = sum(is_readable(change(SAMPLES[name], generator)) for _ in range(count))
    assert readable > 0
    assert readable < count or change is rearrange


def test_words_with_whitespace_around_their_text_are_joined():
    word = "<span class='ocrx_word'>{}</span>"
    words = "".join(map(word.format, ["a ", " b c ", "\n <strong> d </strong> ", "e"]))
    transcript = read_pages(f"<html><div class='ocr_page'><span class='ocr_line'>{words}</span></div></html>".encode())
    for start, stop in [(0, 2), (1, 3), (2, 4), (0, 4)]:
        check(transcript, start, stop, "joined")
        check(transcript, start, stop, "two words" if stop - start != 2 else "now three words")


def test_entity_bombs():
    with pytest.raises(ConservatorError, match="DOCTYPE of the file contains declarations"):
        read_pages(BOMB.encode())
    with pytest.raises(ConservatorError, match="DOCTYPE of the file contains declarations"):
        read_pages(BOMB.replace("alto", "html").replace("<Page>", '<Page class="ocr_page">').encode())


@pytest.mark.parametrize("root", ["PcGts", "alto", "html"])
@pytest.mark.parametrize("declared", ['<!ENTITY a "aaaaaaaaaa">', '<!ENTITY % a "b">%a;', "<!ATTLIST x y CDATA 'z'>"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_declarations_in_any_format_and_encoding(root, declared, encoding):
    data = f"<!DOCTYPE {root} [{declared}]><{root} class='ocr_page'>&a;</{root}>".encode(encoding)
    with pytest.raises(ConservatorError, match="DOCTYPE of the file contains declarations"):
        read_pages(data)


def test_external_entities():
    data = b'<!DOCTYPE alto [<!ENTITY x SYSTEM "file:///etc/hostname">]><alto><String CONTENT="&x;"/></alto>'
    with pytest.raises(ConservatorError, match="DOCTYPE of the file contains declarations"):
        read_pages(data)
    data = b'<!DOCTYPE alto SYSTEM "http://localhost/x.dtd"><alto><fileName>&x;</fileName></alto>'
    with pytest.raises(ConservatorError, match="unknown entity &x;"):
        read_pages(data)


@pytest.mark.parametrize("template", [ALTO, HOCR, PAGE, TSV], ids=["ALTO", "hOCR", "PAGE", "TSV"])
@pytest.mark.parametrize("number", ["1e308", "NaN", "-inf", "1" * 400, "1_0", "x", "99999999"])
def test_impossible_coordinates_are_refused(template, number):
    with pytest.raises(ConservatorError, match="must be a number between -10,000,000 and 10,000,000, got"):
        read_pages((template % number).encode())
    assert read_pages((template % "-3").encode()).words[0].box.left == -3


WIDE = {
    "ALTO": "<alto><Layout><Page WIDTH='%s' HEIGHT='9'/></Layout></alto>",
    "hOCR": "<html><div class='ocr_page' title='bbox 0 0 %s 9'/></html>",
    "PAGE": "<PcGts><Page imageWidth='%s' imageHeight='9'/></PcGts>",
    "TSV": HEADER + "1\t1\t0\t0\t0\t0\t0\t0\t%s\t9\t-1\t\n",
    "a line of ALTO": "<alto><Page><TextLine HPOS='0' VPOS='0' WIDTH='%s' HEIGHT='1'><String CONTENT='a'/></TextLine>"
    "</Page></alto>",
    "a line of PAGE": "<PcGts><Page><TextRegion><TextLine><Coords points='0,0 %s,1'/><TextEquiv><Unicode>a</Unicode>"
    "</TextEquiv></TextLine></TextRegion></Page></PcGts>",
    "a glyph of ALTO": "<alto><Page><TextLine><String CONTENT='a'><Glyph CONTENT='a' HPOS='0' VPOS='0' WIDTH='%s' "
    "HEIGHT='1'/></String></TextLine></Page></alto>",
    "a glyph of hOCR": "<html><div class='ocr_page'><span class='ocr_line'><span class='ocrx_word'>"
    "<span class='ocrx_cinfo' title='x_bboxes 0 0 %s 9'>a</span></span></span></div></html>",
}


@pytest.mark.parametrize("template", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("number", ["1e308", "NaN", "1" * 400, "99999999"])
def test_impossible_sizes_of_pages_lines_and_glyphs_are_refused(template, number):
    with pytest.raises(ConservatorError, match="must be a number between -10,000,000 and 10,000,000, got"):
        read_pages((template % number).encode())
    read_pages((template % "7").encode())


@pytest.mark.parametrize("root", ["alto", "PcGts"])
def test_deeply_nested_xml_is_refused(root):
    depth = 50_000
    with pytest.raises(ConservatorError, match="nested more than 100 levels deep"):
        read_pages(f"<{root}>{'<Page>' * depth}{'</Page>' * depth}</{root}>".encode())


@pytest.mark.parametrize("declared", ["", "<?xml version='1.0'?>"])
@pytest.mark.parametrize("closed", [True, False])
def test_deeply_nested_html_is_refused(declared, closed):
    depth = 5_000
    data = "<html class='ocr_page'>" + "<div class='ocr_line'>" * depth + ("</div>" * depth + "</html>") * closed
    with pytest.raises(ConservatorError, match="nested more than 100 levels deep"):
        read_pages((declared + data).encode())


def test_paragraphs_of_html_need_no_end_tag():
    data = "<html><body class='ocr_page'>" + "<p class='ocr_par'><span class='ocr_line'>one</span>" * 500
    assert read_pages(data.encode()).text == "\n".join(["one\n"] * 500)


@pytest.mark.parametrize("kind", WRITERS)
def test_null_bytes_and_wrong_encodings_are_refused(kind):
    data = WRITERS[kind]([["naïve", "words"]])
    for broken, message in [
        (data.replace(b"words", b"wo\0rds"), "null character"),
        (data.decode().encode("latin-1"), "not valid utf-8|not valid UTF-8"),
    ]:
        with pytest.raises(ConservatorError, match=message):
            read_pages(broken)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16", "its bytes are not utf-16"),
        ("rot13", "unknown encoding"),
        ("klingon", "unknown encoding"),
        ("utf-7", "unknown encoding"),
    ],
)
def test_unknown_declared_encodings_are_refused(encoding, message):
    data = f"<?xml version='1.0' encoding='{encoding}'?><alto/>".encode()
    with pytest.raises(ConservatorError, match=message):
        read_pages(data)


@pytest.mark.parametrize(
    "tail",
    ["<!--" * 50_000, "<a " + "'" * 99_999, "<" * 100_000, "</x" * 50_000, "&" * 100_000, "<!" * 50_000, "<script>"],
)
def test_unterminated_html_is_handled(tail):
    data = "<html><div class='ocr_page'><span class='ocr_line'>a b</span>" + tail
    is_readable(data.encode())


def test_a_long_word_is_changed_in_short_time():
    word = "ab" * 50_000
    transcript = read_pages(WRITERS["hOCR"]([[word, "b"]]))
    corrected = word.replace("ab", "a", 1)
    assert read_pages(transcript.apply_changes([WordChange(0, 1, corrected)])).text == f"{corrected} b\n"
