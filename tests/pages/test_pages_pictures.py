"""Pictures of lines: which lines, their sizes, and the boxes of words in them."""

import io

import pytest
from PIL import Image

from conservator.errors import ConservatorError
from conservator.pages import Box, picture_lines, pictures, read_pages
from conservator.pages.pictures import PictureConfig
from conservator.pages.scans.images import crop_lines
from support.ocr_files import write_alto, write_hocr, write_tsv

LINES = [["one", "two", "three"], ["four", "five"], ["six"]]


def make_image(size=(200, 100), kind="PNG", pages=1, mode="L"):
    buffer = io.BytesIO()
    first, *others = (Image.new(mode, size, "white") for _ in range(pages))
    first.save(buffer, kind, **({"save_all": True, "append_images": others} if pages > 1 else {}))
    return buffer.getvalue()


def opened(picture):
    return Image.open(io.BytesIO(picture.image))


def test_lines_with_spans_and_the_boxes_of_their_words():
    transcript = read_pages(write_hocr(LINES))
    text = transcript.text
    spans = [(text.index(word), text.index(word) + 1) for word in ("five", "three", "two")]
    line_pictures = picture_lines(transcript, spans, lambda number: (make_image(), number))
    assert [sorted(picture.boxes) for picture in line_pictures] == [sorted(spans[1:]), spans[:1]]
    with opened(line_pictures[0]) as shown:
        assert shown.size == (29 + 4, 9 + 4)  # the box of the words, a margin of 4, and the end of the page
    assert line_pictures[0].boxes[spans[1]] == pytest.approx(Box(20 / 33, 0, 29 / 33, 9 / 13))
    assert picture_lines(transcript, [], lambda number: None) == []
    assert picture_lines(transcript, spans, lambda number: None) == []


def test_boxes_are_scaled_to_the_image():
    data = write_alto(LINES).replace(b"<Page>", b"<Page WIDTH='100' HEIGHT='50'>")
    tenths = data.replace(b"<alto>", b"<alto><Description><MeasurementUnit>mm10</MeasurementUnit></Description>")
    for file in (data, tenths):
        line_pictures = picture_lines(read_pages(file), [(0, 1)], lambda number: (make_image((400, 200)), 0))
        with opened(line_pictures[0]) as shown:
            assert shown.size == (29 * 4 + 4, 9 * 4 + 4)
    assert (
        picture_lines(read_pages(tenths), [(0, 1)], lambda number: (make_image((400, 300)), 0)) == []
    )  # other proportions
    bare = tenths.replace(b" WIDTH='100' HEIGHT='50'", b"")
    assert picture_lines(read_pages(bare), [(0, 1)], lambda number: (make_image(), 0)) == []
    assert picture_lines(read_pages(write_tsv(LINES)), [(0, 1)], lambda number: (make_image(), 0))


def test_a_page_of_a_tiff_file():
    transcript = read_pages(write_hocr(LINES))
    assert picture_lines(transcript, [(0, 1)], lambda number: (make_image(kind="TIFF", pages=3), 2))
    with pytest.raises(ConservatorError, match="the image file has no page 4"):
        picture_lines(transcript, [(0, 1)], lambda number: (make_image(kind="TIFF", pages=3), 3))


def test_lines_outside_the_image_have_no_picture():
    transcript = read_pages(write_hocr([["a"]] * 30))
    line_pictures = picture_lines(
        transcript, [(2 * index, 2 * index + 1) for index in range(30)], lambda number: (make_image(), 0)
    )
    assert len(line_pictures) == 10


def test_the_first_spans_are_shown_if_there_are_too_many(monkeypatch):
    monkeypatch.setattr(pictures, "CONFIG", PictureConfig(max_pictures=2))
    transcript = read_pages(write_hocr([["a"]] * 5))
    spans = [(6, 7), (2, 3), (8, 9), (2, 3)]
    line_pictures = picture_lines(transcript, spans, lambda number: (make_image(), 0))
    assert [list(picture.boxes) for picture in line_pictures] == [[(2, 3)], [(6, 7)]]
    limits = PictureConfig(max_pictures=2, max_total_bytes=len(line_pictures[0].image))
    monkeypatch.setattr(pictures, "CONFIG", limits)
    assert len(picture_lines(transcript, spans, lambda number: (make_image(), 0))) == 1


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_pictures_are_small_and_grey(mode):
    buffer = io.BytesIO()
    ink = {"RGBA": (0, 0, 0, 0), "LA": (0, 0), "CMYK": (0, 0, 0, 0), "I;16": 2**15}
    drawn = Image.new(mode, (4000, 80), ink.get(mode, 0))
    drawn.save(buffer, "TIFF")
    ((data, frame),) = crop_lines(buffer.getvalue(), [Box(0, 0, 4000, 80)])
    assert frame == Box(0, 0, 4000, 80)
    with Image.open(io.BytesIO(data)) as shown:
        assert shown.size == (1400, 28)
        shade = shown.convert("L").getpixel((9, 9))
        paper = {"RGBA": 255, "LA": 255, "CMYK": 255, "I;16": 128}.get(mode, 0)
        assert abs(shade - paper) < 2
