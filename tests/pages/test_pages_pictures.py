"""Lines of pages as pictures: which lines, how large, and where on them the words are."""

import io

import pytest
from PIL import Image

from conservator.errors import ConservatorError
from conservator.pages import Box, picture_lines, pictures, read_pages
from conservator.pages.images import crop_lines
from support.ocr_files import write_alto, write_hocr, write_tsv

LINES = [["one", "two", "three"], ["four", "five"], ["six"]]


def image(size=(200, 100), kind="PNG", pages=1, mode="L"):
    made = io.BytesIO()
    first, *others = (Image.new(mode, size, "white") for _ in range(pages))
    first.save(made, kind, **({"save_all": True, "append_images": others} if pages > 1 else {}))
    return made.getvalue()


def opened(picture):
    return Image.open(io.BytesIO(picture.image))


def test_lines_with_stretches_and_their_words():
    transcript = read_pages(write_hocr(LINES))
    text = transcript.text
    stretches = [(text.index(word), text.index(word) + 1) for word in ("five", "three", "two")]
    found = picture_lines(transcript, stretches, lambda number: (image(), number))
    assert [sorted(one.spots) for one in found] == [sorted(stretches[1:]), stretches[:1]]
    with opened(found[0]) as shown:
        assert shown.size == (29 + 4, 9 + 4)  # the box of the words, a margin of 4, and the end of the page
    assert found[0].spots[stretches[1]] == pytest.approx(Box(20 / 33, 0, 29 / 33, 9 / 13))
    assert picture_lines(transcript, [], lambda number: None) == []
    assert picture_lines(transcript, stretches, lambda number: None) == []


def test_boxes_are_scaled_to_the_image():
    data = write_alto(LINES).replace(b"<Page>", b"<Page WIDTH='100' HEIGHT='50'>")
    tenths = data.replace(b"<alto>", b"<alto><Description><MeasurementUnit>mm10</MeasurementUnit></Description>")
    for one in (data, tenths):
        found = picture_lines(read_pages(one), [(0, 1)], lambda number: (image((400, 200)), 0))
        with opened(found[0]) as shown:
            assert shown.size == (29 * 4 + 4, 9 * 4 + 4)
    assert picture_lines(read_pages(tenths), [(0, 1)], lambda number: (image((400, 300)), 0)) == []  # of another page
    bare = tenths.replace(b" WIDTH='100' HEIGHT='50'", b"")
    assert picture_lines(read_pages(bare), [(0, 1)], lambda number: (image(), 0)) == []
    assert picture_lines(read_pages(write_tsv(LINES)), [(0, 1)], lambda number: (image(), 0))


def test_a_page_of_a_file_of_images():
    transcript = read_pages(write_hocr(LINES))
    assert picture_lines(transcript, [(0, 1)], lambda number: (image(kind="TIFF", pages=3), 2))
    with pytest.raises(ConservatorError, match="no page 4 in the image"):
        picture_lines(transcript, [(0, 1)], lambda number: (image(kind="TIFF", pages=3), 3))


def test_lines_off_the_image_have_no_picture():
    transcript = read_pages(write_hocr([["a"]] * 30))
    found = picture_lines(transcript, [(2 * at, 2 * at + 1) for at in range(30)], lambda number: (image(), 0))
    assert len(found) == 10


def test_the_first_stretches_are_shown_if_there_are_too_many(monkeypatch):
    monkeypatch.setattr(pictures, "MOST", 2)
    transcript = read_pages(write_hocr([["a"]] * 5))
    stretches = [(6, 7), (2, 3), (8, 9), (2, 3)]
    found = picture_lines(transcript, stretches, lambda number: (image(), 0))
    assert [list(one.spots) for one in found] == [[(2, 3)], [(6, 7)]]
    monkeypatch.setattr(pictures, "HEAVIEST", len(found[0].image))
    assert len(picture_lines(transcript, stretches, lambda number: (image(), 0))) == 1


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_pictures_are_small_and_grey(mode):
    made = io.BytesIO()
    ink = {"RGBA": (0, 0, 0, 0), "LA": (0, 0), "CMYK": (0, 0, 0, 0), "I;16": 2**15}
    drawn = Image.new(mode, (4000, 80), ink.get(mode, 0))
    drawn.save(made, "TIFF")
    ((data, frame),) = crop_lines(made.getvalue(), [Box(0, 0, 4000, 80)])
    assert frame == Box(0, 0, 4000, 80)
    with Image.open(io.BytesIO(data)) as shown:
        assert shown.size == (1400, 28)
        shade = shown.convert("L").getpixel((9, 9))
        paper = {"RGBA": 255, "LA": 255, "CMYK": 255, "I;16": 128}.get(mode, 0)
        assert abs(shade - paper) < 2
