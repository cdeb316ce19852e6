"""Detection of overwritten bytes: random bytes in a text, some of which no text has.

If a share r of the bytes of a text was replaced by random bytes, it has about r / 2 bytes outside ASCII, most of which
are not valid UTF-8, and about r CONTROL_BYTES / 256 control characters. Text in a one-byte encoding has no control
characters, UTF-16 and binary data have more of them.
"""

import re

from conservator.documents.file_types import CONTROLS

INVALID = re.compile("[\udc80-\udcff]")  # an invalid byte, as Python decodes it with surrogateescape
CONTROL_BYTES = 26  # bytes: values that ``CONTROLS`` matches [definition]
OUTSIDE_ASCII = 128  # bytes: values outside ASCII [definition]
MIN_CONTROLS = 2  # bytes: fewer control characters are no evidence [untuned]
MAX_RATE = 0.3  # share: above it, the bytes are another encoding or binary data [untuned]
MAX_RATIO = 4.0  # ratio: of the two estimates of the rate, if they agree [untuned]


def overwritten_rate(data: bytes) -> float:
    """Estimate the share of the bytes of a text that was overwritten by random bytes; 0 without evidence of it."""
    controls = len(CONTROLS.findall(data))
    if controls < MIN_CONTROLS:
        return 0.0
    invalid = len(INVALID.findall(data.decode(errors="surrogateescape")))
    by_controls, by_invalid = (
        256 * count / number / len(data) for count, number in ((controls, CONTROL_BYTES), (invalid, OUTSIDE_ASCII))
    )
    if by_controls > MAX_RATE or max(by_controls, by_invalid) > MAX_RATIO * min(by_controls, by_invalid):
        return 0.0
    return by_controls  # a character of several bytes is invalid if one of them is overwritten
