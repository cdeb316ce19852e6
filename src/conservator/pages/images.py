"""Pictures of pages: which kind a file is, how large the picture is, and cutting out a line."""

import io
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

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

from conservator.documents.file_types import name_file_type
from conservator.errors import ConservatorError, NotTextError
from conservator.pages.model import Box

# What a file is -> its short name.
SCANS = {
    "a PNG image": "png",
    "a JPEG image": "jpeg",
    "a TIFF image": "tiff",
    "a WebP image": "webp",
    "a BMP image": "bmp",
    "a PNM image": "pnm",
    "a GIF image": "gif",
    "a PDF document": "pdf",
}
ACCEPTED = "PNG, JPEG, TIFF, WebP, BMP, PNM and GIF images and PDF documents are read"
# Each reads the header alone. Image.open does, too, but warns of images that are within the limits here.
OPENERS: dict[str, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "png": PngImagePlugin.PngImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "pnm": PpmImagePlugin.PpmImageFile,
    "gif": GifImagePlugin.GifImageFile,
}
SIZE = 2**29  # bytes of a file
PIXELS = 150_000_000  # of a page: a newspaper at 600 dots an inch
SIDE = 32_767  # pixels; Tesseract takes no more
PAGES = 1000
WIDE, HIGH, GREYS = 1400, 200, 16  # of a line in a report: pixels and shades
# What Pillow raises at files that are broken.
FAULTS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    ArithmeticError,
    MemoryError,
    AttributeError,
    struct.error,
    Image.DecompressionBombError,
)


def name_scan(data: bytes) -> str | None:
    """``png``, ``jpeg``, ``tiff``, ``webp``, ``bmp``, ``pnm``, ``gif`` or ``pdf``, by how a file begins; else None."""
    return SCANS.get(name_file_type(data) or "")


def check_scan(data: bytes) -> str:
    """The short name of the kind of a scan; a file that is none, or is too large, is refused."""
    found = name_scan(data)
    if found is None:
        kind = name_file_type(data)
        raise NotTextError(f"the file is {kind or 'no image'}; {ACCEPTED}")
    if len(data) > SIZE:
        raise ConservatorError(f"the file has {len(data):,} bytes; at most {SIZE:,} are accepted")
    return found


def check_pixels(width: float, height: float, number: int) -> None:
    """Refuse a page that is too large, or has no pixels."""
    if width < 1 or height < 1:
        raise ConservatorError(f"page {number} has {width:.0f} x {height:.0f} pixels")
    if width * height > PIXELS or max(width, height) > SIDE:
        raise ConservatorError(
            f"page {number} has {width:,.0f} x {height:,.0f} pixels; "
            f"at most {PIXELS:,} are accepted, and {SIDE:,} a side"
        )


def count_pages(data: bytes) -> int:
    """How many images a file has, each of a size that is accepted. Only headers are read, nothing is decoded."""
    with _opened(data) as image:
        check_pixels(*image.size, 1)
        number = 1
        while image.format == "TIFF" and _turn(image, number):  # of an animation, Tesseract reads the first
            number += 1
            check_pixels(*image.size, number)
            if number > PAGES:
                raise ConservatorError(f"the file has more than {PAGES} pages; part it")
        return number


def check_images(data: bytes) -> int:
    """Decode every image of a file that Tesseract would read; return how many there are.

    A broken image is then reported as such on every machine, whether or not Tesseract is installed.
    """
    count = count_pages(data)
    with _opened(data) as image:
        for page in range(count):
            _turn_to(image, page)
            image.load()
    return count


def crop_line(data: bytes, box: Box, *, page: int = 0, margin: float = 4) -> bytes:
    """The part of an image in a box, as PNG.

    Args:
        data: the bytes of the file of an image.
        box: in pixels; what is outside of the image is cut off.
        page: which image of a TIFF file, from 0.
        margin: pixels around the box.
    """
    with _opened(data) as image:
        _turn_to(image, page)
        return encode_png(image.crop(_pixels(image, box, page, margin)))


def crop_lines(data: bytes, boxes: Sequence[Box], *, page: int = 0, margin: float = 4) -> Iterator[tuple[bytes, Box]]:
    """Parts of an image that has many, as small grey PNG files, and the box that each shows.

    Args:
        data: the bytes of the file of an image.
        boxes: in pixels.
        page: which image of a TIFF file, from 0.
        margin: pixels around each box.
    """
    with _opened(data) as image:
        _turn_to(image, page)
        grey = _as_grey(image) if boxes else image
        for box in boxes:
            cut = _pixels(image, box, page, margin)
            part = grey.crop(cut)
            share = min(1.0, WIDE / part.width, HIGH / part.height)
            small = part.resize((max(1, round(part.width * share)), max(1, round(part.height * share))))
            made = io.BytesIO()
            small.quantize(GREYS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
            yield made.getvalue(), Box(*cut)


def _as_grey(image: Image.Image) -> Image.Image:
    """An image in shades of grey, on white paper where it is transparent."""
    if image.mode.startswith("I"):  # 16 bits per pixel; "L" has 8
        return image.convert("I").point(lambda shade: shade / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("L")
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image.convert("RGBA"))
    return paper.convert("L")


def size_of(data: bytes, page: int = 0) -> tuple[int, int]:
    """The width and height of an image; only headers are read."""
    with _opened(data) as image:
        _turn_to(image, page)
        return image.size


def _turn_to(image: ImageFile.ImageFile, page: int) -> None:
    """Turn to a page that is there and has a size that is accepted."""
    if not _turn(image, page):
        raise ConservatorError(f"there is no page {page + 1} in the image")
    check_pixels(*image.size, page + 1)


def _pixels(image: ImageFile.ImageFile, box: Box, page: int, margin: float) -> tuple[int, int, int, int]:
    """The pixels of an image in a box with a margin."""
    left, top = max(0, round(box.left - margin)), max(0, round(box.top - margin))
    right, bottom = min(image.width, round(box.right + margin)), min(image.height, round(box.bottom + margin))
    if left >= right or top >= bottom:
        raise ConservatorError(f"the box {tuple(box)} is not on page {page + 1} of {image.width} x {image.height}")
    return left, top, right, bottom


def encode_png(image: Image.Image, dpi: float | None = None) -> bytes:
    """The bytes of a PNG file, grey if the image is without colour."""
    shown = image if image.mode in ("1", "L", "RGB") else image.convert("L" if image.mode == "LA" else "RGB")
    made = io.BytesIO()
    shown.save(made, "PNG", **({"dpi": (dpi, dpi)} if dpi else {}))
    return made.getvalue()


def _turn(image: ImageFile.ImageFile, page: int) -> bool:
    """Turn to a page of a file, from 0; False if there is none."""
    try:
        image.seek(page)
    except EOFError:
        return False
    return True


@contextmanager
def _opened(data: bytes) -> Iterator[ImageFile.ImageFile]:
    """An image of which only the header is read; what is broken in it becomes one clear error."""
    kind = check_scan(data)
    if kind == "pdf":
        raise ConservatorError("the file is a PDF document; draw_page makes images of its pages")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Pillow skips
            yield OPENERS[kind](io.BytesIO(data))
    except ConservatorError:
        raise
    except FAULTS as error:
        said = " ".join(str(error).split())
        raise ConservatorError(f"the {kind.upper()} image is broken: {said or type(error).__name__}") from error
