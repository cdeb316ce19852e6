"""Pictures of pages: told by their first bytes, refused if they are too large, and cut into lines."""

import io
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conservator.errors import ConservatorError, NotTextError
from conservator.pages import Box, crop_line, name_scan
from conservator.pages.images import SCANS, count_pages

FORMATS = {"png": "PNG", "jpeg": "JPEG", "tiff": "TIFF", "webp": "WEBP", "bmp": "BMP", "pnm": "PPM", "gif": "GIF"}


def picture(kind="png", size=(60, 40), mode="L", **options):
    made = io.BytesIO()
    image = Image.new(mode, size, "white")
    image.paste("black", (20, 10, 30, 15))
    image.save(made, FORMATS[kind], **options)
    return made.getvalue()


def bomb(width, height):
    """A PNG file whose header promises a large image."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return head + struct.pack(">I", 10**6) + b"IDAT"


@pytest.mark.parametrize("kind", FORMATS)
def test_kinds_are_told_and_lines_cut_out(kind):
    data = picture(kind)
    assert name_scan(data) == kind
    assert count_pages(data) == 1
    line = crop_line(data, Box(20, 10, 30, 15), margin=2)
    with Image.open(io.BytesIO(line)) as image:
        assert (image.format, image.size) == ("PNG", (14, 9))
        shades = image.convert("L")
        assert shades.getpixel((7, 4)) < 60
        assert shades.getpixel((0, 0)) > 200


def test_short_names_are_complete():
    assert set(SCANS.values()) == {*FORMATS, "pdf"}
    assert name_scan(b"%PDF-1.7\n") == "pdf"
    assert name_scan(b"text") is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_lines_of_images_of_any_colours(mode):
    made = io.BytesIO()
    Image.new(mode, (30, 20)).save(made, "TIFF")
    with Image.open(io.BytesIO(crop_line(made.getvalue(), Box(1, 1, 9, 9), margin=0))) as image:
        assert image.size == (8, 8)


def test_a_line_at_the_edge_of_a_page_of_a_file():
    pages = [Image.new("L", (30, 20), shade) for shade in (0, 200)]
    made = io.BytesIO()
    pages[0].save(made, "TIFF", save_all=True, append_images=pages[1:])
    assert count_pages(made.getvalue()) == 2
    with Image.open(io.BytesIO(crop_line(made.getvalue(), Box(-5, 0, 90, 9), page=1, margin=2))) as image:
        assert (image.size, image.getpixel((0, 0))) == ((30, 11), 200)
    with pytest.raises(ConservatorError, match="page 3"):
        crop_line(made.getvalue(), Box(0, 0, 9, 9), page=2)
    with pytest.raises(ConservatorError, match="not on page 1 of 30 x 20"):
        crop_line(made.getvalue(), Box(40, 0, 50, 9))


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (40_000, 10), (2**31 - 1, 2**31 - 1)])
def test_a_large_image_is_refused_by_its_header(width, height):
    for ask in (count_pages, lambda data: crop_line(data, Box(0, 0, 9, 9))):
        with pytest.raises(ConservatorError, match="pixels; at most 150,000,000 are accepted, and 32,767 a side"):
            ask(bomb(width, height))


def test_a_newspaper_is_accepted_without_a_warning():
    assert count_pages(bomb(9_000, 13_800)) == 1


@pytest.mark.parametrize("data", [b"PK\x03\x04rest", b"a text", b""])
def test_other_files_are_named(data):
    with pytest.raises(NotTextError, match=r"the file is (a ZIP archive|no image); PNG, JPEG"):
        count_pages(data)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(FORMATS)), st.data())
def test_broken_images_are_refused_or_read(kind, data):
    """Whatever is changed or cut off in a file: it is cut, or there is a clear error."""
    broken = bytearray(picture(kind, (12, 9)))
    for _ in range(data.draw(st.integers(0, 6))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(broken[: data.draw(st.integers(1, len(broken)))])
    with suppress(ConservatorError):
        assert count_pages(broken) >= 1
        assert crop_line(broken, Box(0, 0, 5, 5)).startswith(b"\x89PNG")
