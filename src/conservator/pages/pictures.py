"""Pictures of the lines of a page that contain changes, for the review of corrections."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from conservator.pages.model import Box, Page, outer_box
from conservator.pages.scans.images import crop_lines, image_size
from conservator.pages.transcript import Transcript

Span = tuple[int, int]
FindImage = Callable[[int], tuple[bytes, int] | None]


@dataclass(frozen=True)
class PictureConfig:
    """Limits of the pictures of a report."""

    max_pictures: int = 300  # count: pictures of a report [safety limit]
    max_total_bytes: int = 6_000_000  # bytes: size of all pictures [safety limit]
    aspect_tolerance: float = 0.02  # relative difference: scales of width and height of an image and its page [untuned]


CONFIG = PictureConfig()


@dataclass(frozen=True)
class Picture:
    """An image of a line of a page.

    Attributes:
        image: bytes of a PNG file.
        boxes: span of characters of the transcript -> box around its words, in fractions of the picture.
    """

    image: bytes
    boxes: Mapping[Span, Box]


def picture_lines(transcript: Transcript, spans: Iterable[Span], find_image: FindImage) -> list[Picture]:
    """Crop pictures of the lines that contain spans of text, within the limits of PictureConfig.

    Args:
        transcript: transcript of the pages.
        spans: spans of characters of its text; if there are too many, the first are used.
        find_image: returns the bytes of the image file of a page and the index of the image in it, by the index of the
            page; None if there is no image.
    """
    pictures: list[Picture] = []
    total_bytes = 0
    for page, lines in sorted(_select_lines(transcript, spans).items()):
        location = find_image(page)
        if location is None:
            continue
        data, image_index = location
        size = image_size(data, image_index)
        scale = _scale(transcript, transcript.pages[page], size)
        if scale is None:
            continue
        scaled = [(_scaled(line_box, scale), span_boxes) for line_box, span_boxes in lines]
        visible = [(line_box, span_boxes) for line_box, span_boxes in scaled if _is_visible(line_box, size)]
        crops = crop_lines(data, [line_box for line_box, _ in visible], page=image_index)
        for (image, frame), (_, span_boxes) in zip(crops, visible, strict=True):
            total_bytes += len(image)
            if total_bytes > CONFIG.max_total_bytes:
                return pictures
            relative = {span: _relative_box(_scaled(box, scale), frame) for span, box in span_boxes.items()}
            pictures.append(Picture(image, relative))
    return pictures


def _select_lines(transcript: Transcript, spans: Iterable[Span]) -> dict[int, list[tuple[Box, dict[Span, Box]]]]:
    """Return the boxes of the lines of each page that contain spans, with the box around the words of each span."""
    page_and_line = [(index, line) for index, page in enumerate(transcript.pages) for line in page.lines]
    boxes_of_line: dict[int, dict[Span, Box]] = {}
    for span in spans:
        first, last = transcript.words_in(*span)
        if first == last:
            continue
        line_index = transcript.line_of(first)
        if line_index in boxes_of_line or len(boxes_of_line) < CONFIG.max_pictures:
            span_boxes = boxes_of_line.setdefault(line_index, {})
            box = outer_box([word.box for word in transcript.words[first:last]])
            if box is not None:
                span_boxes[span] = box
    pages: dict[int, list[tuple[Box, dict[Span, Box]]]] = {}
    for line_index, span_boxes in sorted(boxes_of_line.items()):
        page_index, line = page_and_line[line_index]
        line_box = line.box if line.box is not None else outer_box([word.box for word in line.words])
        if line_box is not None:
            pages.setdefault(page_index, []).append((line_box, span_boxes))
    return pages


def _scale(transcript: Transcript, page: Page, size: tuple[int, int]) -> tuple[float, float] | None:
    """Return the pixels per unit of a page, horizontally and vertically; None if the image has other proportions."""
    width, height = size
    if page.box is None or page.box.right <= 0 or page.box.bottom <= 0:
        return (1.0, 1.0) if transcript.unit == "pixel" else None
    horizontal, vertical = width / page.box.right, height / page.box.bottom
    return (horizontal, vertical) if abs(horizontal / vertical - 1) <= CONFIG.aspect_tolerance else None


def _scaled(box: Box, scale: tuple[float, float]) -> Box:
    """Convert a box to pixels."""
    horizontal, vertical = scale
    return Box(box.left * horizontal, box.top * vertical, box.right * horizontal, box.bottom * vertical)


def _is_visible(box: Box, size: tuple[int, int]) -> bool:
    """Return whether a box overlaps an image."""
    return max(0.0, box.left) < min(size[0], box.right) and max(0.0, box.top) < min(size[1], box.bottom)


def _relative_box(box: Box, frame: Box) -> Box:
    """Convert a box to fractions of a frame, clipped to the frame."""
    width, height = frame.right - frame.left, frame.bottom - frame.top
    left, right = ((value - frame.left) / width for value in (box.left, box.right))
    top, bottom = ((value - frame.top) / height for value in (box.top, box.bottom))
    return Box(*(min(1.0, max(0.0, fraction)) for fraction in (left, top, right, bottom)))
