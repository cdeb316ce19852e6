"""Scans: detection of the format, size checks, and cropping of lines."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from conservator.documents.file_types import PDF, name_file_type
from conservator.errors import ConservatorError, NotTextError
from conservator.pages.model import Box

# Description of a file type -> format.
SCANS = {
    "a PNG image": "png",
    "a JPEG image": "jpeg",
    "a TIFF image": "tiff",
    "a WebP image": "webp",
    "a BMP image": "bmp",
    "a PNM image": "pnm",
    "a GIF image": "gif",
    PDF: "pdf",
}
ACCEPTED = "accepted scans are PNG, JPEG, TIFF, WebP, BMP, PNM and GIF images and PDF documents"
# Each reads only the header. Image.open does, too, but it refuses images that check_pixels describes.
OPENERS: dict[str, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "png": PngImagePlugin.PngImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "pnm": PpmImagePlugin.PpmImageFile,
    "gif": GifImagePlugin.GifImageFile,
}


@dataclass(frozen=True)
class ImageConfig:
    """Limits of scans, and the format of line images in a report."""

    max_file_bytes: int = 2**29  # bytes: size of a file [safety limit]
    max_page_pixels: int = 150_000_000  # pixels: area of a page, a newspaper at 600 dpi [safety limit]
    max_side_pixels: int = 32_767  # pixels: width or height of a page; Tesseract's limit [definition]
    max_pages: int = 1000  # count: pages of a file [safety limit]
    max_line_width: int = 1400  # pixels: width of a line image [untuned]
    max_line_height: int = 200  # pixels: height of a line image [untuned]
    line_grey_levels: int = 16  # count: shades of grey of a line image [untuned]


IMAGES = ImageConfig()


def detect_scan_format(data: bytes) -> str | None:
    """Return the format of a scan (a value of SCANS) by its first bytes; None for any other file."""
    return SCANS.get(name_file_type(data) or "")


def check_scan(data: bytes) -> str:
    """Return the format of a scan; raise an error if the file is not a scan, or is too large."""
    scan_format = detect_scan_format(data)
    if scan_format is None:
        raise NotTextError(f"the file is {name_file_type(data) or 'not an image'}; {ACCEPTED}")
    if len(data) > IMAGES.max_file_bytes:
        raise ConservatorError(
            f"the file is too large: it has {len(data):,} bytes, the limit is {IMAGES.max_file_bytes:,} bytes"
        )
    return scan_format


def check_pixels(width: float, height: float, number: int) -> None:
    """Raise an error if a page is too large or empty; ``number`` counts from 1."""
    if width < 1 or height < 1:
        raise ConservatorError(f"page {number} is empty: it has {width:.0f} x {height:.0f} pixels")
    if width * height > IMAGES.max_page_pixels or max(width, height) > IMAGES.max_side_pixels:
        raise ConservatorError(
            f"page {number} is too large: it has {width:,.0f} x {height:,.0f} pixels, "
            f"the limit is {IMAGES.max_page_pixels:,} pixels, and {IMAGES.max_side_pixels:,} per side"
        )


def count_pages(data: bytes) -> int:
    """Return the number of images of a file, and check their sizes. Only headers are read."""
    with _open(data) as image:
        check_pixels(*image.size, 1)
        number = 1
        while image.format == "TIFF" and _seek(image, number):  # Tesseract reads the first image of an animation
            number += 1
            check_pixels(*image.size, number)
            if number > IMAGES.max_pages:
                raise ConservatorError(f"the file has more than {IMAGES.max_pages} pages, which is the limit; split it")
        return number


def check_images(data: bytes) -> int:
    """Decode every image of a file that Tesseract would read, and return their number.

    A broken image then gives the same error on every machine, whether or not Tesseract is installed.
    """
    page_count = count_pages(data)
    with _open(data) as image:
        for page in range(page_count):
            _seek_checked(image, page)
            image.load()
    return page_count


def crop_lines(data: bytes, boxes: Sequence[Box], *, page: int = 0, margin: float = 4) -> Iterator[tuple[bytes, Box]]:
    """Crop boxes from an image; yield each as a small grey PNG file, with the box of its pixels.

    Args:
        data: bytes of an image file.
        boxes: boxes in pixels.
        page: index of the image in a TIFF file.
        margin: pixels around each box.
    """
    with _open(data) as image:
        _seek_checked(image, page)
        grey = _to_grey(image) if boxes else image
        for box in boxes:
            pixel_box = _pixel_box(image, box, page, margin)
            crop = grey.crop(pixel_box)
            scale = min(1.0, IMAGES.max_line_width / crop.width, IMAGES.max_line_height / crop.height)
            small = crop.resize((max(1, round(crop.width * scale)), max(1, round(crop.height * scale))))
            png = io.BytesIO()
            small.quantize(IMAGES.line_grey_levels, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
            yield png.getvalue(), Box(*pixel_box)


def _to_grey(image: Image.Image) -> Image.Image:
    """Convert an image to grey; transparent pixels become white."""
    if image.mode.startswith("I"):  # 16 bits per pixel; "L" has 8
        return image.convert("I").point(lambda shade: shade / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("L")
    background = Image.new("RGBA", image.size, "white")
    background.alpha_composite(image.convert("RGBA"))
    return background.convert("L")


def image_size(data: bytes, page: int = 0) -> tuple[int, int]:
    """Return the width and height of an image; only headers are read."""
    with _open(data) as image:
        _seek_checked(image, page)
        return image.size


def _seek_checked(image: ImageFile.ImageFile, page: int) -> None:
    """Select a page; raise an error if it does not exist or is too large."""
    if not _seek(image, page):
        raise ConservatorError(f"the image file has no page {page + 1}")
    check_pixels(*image.size, page + 1)


def _pixel_box(image: ImageFile.ImageFile, box: Box, page: int, margin: float) -> tuple[int, int, int, int]:
    """Return the pixels of a box with a margin, within the image."""
    left, top = max(0, round(box.left - margin)), max(0, round(box.top - margin))
    right, bottom = min(image.width, round(box.right + margin)), min(image.height, round(box.bottom + margin))
    if left >= right or top >= bottom:
        raise ConservatorError(
            f"the box {tuple(box)} is outside page {page + 1}, which has {image.width} x {image.height} pixels"
        )
    return left, top, right, bottom


def _seek(image: ImageFile.ImageFile, page: int) -> bool:
    """Select a page of a file, counted from 0; return False if it does not exist."""
    try:
        image.seek(page)
    except EOFError:
        return False
    return True


@contextmanager
def _open(data: bytes) -> Iterator[ImageFile.ImageFile]:
    """Open an image and read its header; exceptions for broken files become ConservatorErrors."""
    kind = check_scan(data)
    if kind == "pdf":
        raise ConservatorError("the file is a PDF document; draw_page converts its pages to images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about the parts that it skips
            yield OPENERS[kind](io.BytesIO(data))
    except ConservatorError:
        raise
    except Exception as error:  # Pillow raises many types of exceptions for broken files
        message = " ".join(str(error).split())
        raise ConservatorError(f"the {kind.upper()} image is broken: {message or type(error).__name__}") from error
