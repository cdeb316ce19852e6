"""Scans: detected by their first bytes, refused if they are too large, and cropped to lines."""

import io
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from conservator.errors import ConservatorError, NotTextError
from conservator.pages import Box, detect_scan_format
from conservator.pages.scans.images import SCANS, count_pages, crop_lines

FORMATS = {"png": "PNG", "jpeg": "JPEG", "tiff": "TIFF", "webp": "WEBP", "bmp": "BMP", "pnm": "PPM", "gif": "GIF"}


def make_image(kind="png", size=(60, 40), mode="L", **options):
    buffer = io.BytesIO()
    image = Image.new(mode, size, "white")
    image.paste("black", (20, 10, 30, 15))
    image.save(buffer, FORMATS[kind], **options)
    return buffer.getvalue()


def crop_line(data, box, **options):
    [(image, _)] = crop_lines(data, [box], **options)
    return image


def bomb(width, height):
    """A PNG file with a header of a large image and no pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return head + struct.pack(">I", 10**6) + b"IDAT"


@pytest.mark.parametrize("kind", FORMATS)
def test_formats_are_detected_and_lines_are_cropped(kind):
    data = make_image(kind)
    assert detect_scan_format(data) == kind
    assert count_pages(data) == 1
    line = crop_line(data, Box(20, 10, 30, 15), margin=2)
    with Image.open(io.BytesIO(line)) as image:
        assert (image.format, image.size) == ("PNG", (14, 9))
        shades = image.convert("L")
        assert shades.getpixel((7, 4)) < 60
        assert shades.getpixel((0, 0)) > 200


def test_every_format_is_known():
    assert set(SCANS.values()) == {*FORMATS, "pdf"}
    assert detect_scan_format(b"%PDF-1.7\n") == "pdf"
    assert detect_scan_format(b"text") is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_lines_are_cropped_from_images_of_any_mode(mode):
    buffer = io.BytesIO()
    Image.new(mode, (30, 20)).save(buffer, "TIFF")
    with Image.open(io.BytesIO(crop_line(buffer.getvalue(), Box(1, 1, 9, 9), margin=0))) as image:
        assert image.size == (8, 8)


def test_a_line_at_the_edge_of_a_page_is_cropped():
    pages = [Image.new("L", (30, 20), shade) for shade in (0, 200)]
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])
    assert count_pages(buffer.getvalue()) == 2
    with Image.open(io.BytesIO(crop_line(buffer.getvalue(), Box(-5, 0, 90, 9), page=1, margin=2))) as image:
        assert (image.size, image.convert("L").getpixel((0, 0))) == ((30, 11), 200)
    with pytest.raises(ConservatorError, match="has no page 3"):
        crop_line(buffer.getvalue(), Box(0, 0, 9, 9), page=2)
    with pytest.raises(ConservatorError, match="outside page 1, which has 30 x 20 pixels"):
        crop_line(buffer.getvalue(), Box(40, 0, 50, 9))


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (40_000, 10), (2**31 - 1, 2**31 - 1)])
def test_an_image_with_a_large_size_in_its_header_is_refused(width, height):
    for function in (count_pages, lambda data: crop_line(data, Box(0, 0, 9, 9))):
        with pytest.raises(ConservatorError, match="pixels, the limit is 150,000,000 pixels, and 32,767 per side"):
            function(bomb(width, height))


def test_a_newspaper_is_accepted_without_a_warning():
    assert count_pages(bomb(9_000, 13_800)) == 1


@pytest.mark.parametrize("data", [b"PK\x03\x04rest", b"a text", b""])
def test_the_error_names_the_type_of_other_files(data):
    with pytest.raises(NotTextError, match=r"the file is (a ZIP archive|not an image); accepted scans are PNG, JPEG"):
        count_pages(data)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(FORMATS)), st.data())
def test_broken_images_are_refused_or_read(kind, data):
    """A file with changed or missing bytes is cropped, or gives a ConservatorError."""
    broken = bytearray(make_image(kind, (12, 9)))
    for _ in range(data.draw(st.integers(0, 6))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(broken[: data.draw(st.integers(1, len(broken)))])
    with suppress(ConservatorError):
        assert count_pages(broken) >= 1
        assert crop_line(broken, Box(0, 0, 5, 5)).startswith(b"\x89PNG")
