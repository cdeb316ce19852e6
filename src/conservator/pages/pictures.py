"""Lines of pages as pictures, for a person who judges what was changed in them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from conservator.pages.images import crop_lines, size_of
from conservator.pages.model import Box, Line, Page
from conservator.pages.transcript import Transcript

MOST = 300  # pictures
HEAVIEST = 6_000_000  # bytes of all pictures
SKEW = 0.02  # by how much the sides of an image may differ from those of its page in the file, as a share

Stretch = tuple[int, int]
FindImage = Callable[[int], tuple[bytes, int] | None]


@dataclass(frozen=True)
class Picture:
    """A line of a page.

    Attributes:
        image: the bytes of a PNG file.
        spots: stretches of characters of the transcript -> the boxes around their words, as shares of the picture.
    """

    image: bytes
    spots: Mapping[Stretch, Box]


def picture_lines(transcript: Transcript, stretches: Iterable[Stretch], find_image: FindImage) -> list[Picture]:
    """Pictures of the lines in which stretches of text stand, at most MOST and HEAVIEST.

    Args:
        transcript: of the pages.
        stretches: half-open ranges of characters of its text; where there are too many, the first are shown.
        find_image: gives the file of the image of a page, by its number from 0, and the number of the image in that
            file; None if there is none.
    """
    wanted = _choose_lines(transcript, stretches)
    made: list[Picture] = []
    weight = 0
    for number, lines in sorted(wanted.items()):
        found = find_image(number)
        if found is None:
            continue
        size = size_of(*found)
        scale = _scale(transcript, transcript.pages[number], size)
        if scale is None:
            continue
        boxes = [_scaled(_box_of(line), scale) for line, _ in lines]
        shown = [(box, spots) for box, (_, spots) in zip(boxes, lines, strict=True) if _is_inside(box, size)]
        crops = crop_lines(found[0], [box for box, _ in shown if box is not None], page=found[1])
        for (image, frame), (_, spots) in zip(crops, shown, strict=True):
            weight += len(image)
            if weight > HEAVIEST:
                return made
            placed = {stretch: _share(_scaled(box, scale), frame) for stretch, box in spots.items()}
            made.append(Picture(image, {key: box for key, box in placed.items() if box is not None}))
    return made


def _choose_lines(
    transcript: Transcript, stretches: Iterable[Stretch]
) -> dict[int, list[tuple[Line, dict[Stretch, Box | None]]]]:
    """The lines of each page in which stretches stand, with the boxes around the words of each stretch."""
    homes = [(number, line) for number, page in enumerate(transcript.pages) for line in page.lines]
    found: dict[int, dict[Stretch, Box | None]] = {}
    for stretch in stretches:
        first, last = transcript.words_in(*stretch)
        if first == last:
            continue
        line = transcript.line_of(first)
        if line in found or len(found) < MOST:
            boxes = [word.box for word in transcript.words[first:last]]
            found.setdefault(line, {})[stretch] = _around(boxes)
    pages: dict[int, list[tuple[Line, dict[Stretch, Box | None]]]] = {}
    for line, spots in sorted(found.items()):
        number, home = homes[line]
        pages.setdefault(number, []).append((home, spots))
    return pages


def _box_of(line: Line) -> Box | None:
    """The box of a line, or the one around its words."""
    return line.box if line.box is not None else _around([word.box for word in line.words])


def _around(boxes: list[Box | None]) -> Box | None:
    """The box around boxes; None if one is missing."""
    known = [box for box in boxes if box is not None]
    return reduce(Box.joined, known) if known and len(known) == len(boxes) else None


def _scale(transcript: Transcript, page: Page, size: tuple[int, int]) -> tuple[float, float] | None:
    """How many pixels a unit of the page is, across and down; None if the image is not that of the page."""
    width, height = size
    if page.box is None or page.box.right <= 0 or page.box.bottom <= 0:
        return (1.0, 1.0) if transcript.unit == "pixel" else None
    across, down = width / page.box.right, height / page.box.bottom
    return (across, down) if abs(across / down - 1) <= SKEW else None


def _scaled(box: Box | None, scale: tuple[float, float]) -> Box | None:
    """A box in pixels."""
    across, down = scale
    return box and Box(box.left * across, box.top * down, box.right * across, box.bottom * down)


def _is_inside(box: Box | None, size: tuple[int, int]) -> bool:
    """Whether a part of a box is on an image."""
    return (
        box is not None
        and max(0.0, box.left) < min(size[0], box.right)
        and max(0.0, box.top) < min(size[1], box.bottom)
    )


def _share(box: Box | None, frame: Box) -> Box | None:
    """A box as shares of a frame, as far as it is inside."""
    if box is None:
        return None
    width, height = frame.right - frame.left, frame.bottom - frame.top
    left, right = ((place - frame.left) / width for place in (box.left, box.right))
    top, bottom = ((place - frame.top) / height for place in (box.top, box.bottom))
    return Box(*(min(1.0, max(0.0, share)) for share in (left, top, right, bottom)))
