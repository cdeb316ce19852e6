"""Damage by the channels whose errors are in visible text, for tests of their restoration."""

from collections.abc import Callable

import numpy as np

from conservator.channel_names import CASE, HYPHENATION, MOJIBAKE, OCR, SPACES, TYPING
from conservator.channels.corrupt_layout import corrupt_case, corrupt_hyphenation, corrupt_spaces
from conservator.channels.edits import EditChannel
from conservator.channels.registry import DEFAULT
from conservator.channels.typing_errors import corrupt_typing

Corrupt = Callable[[str, float, np.random.Generator], str]


def corrupt_ocr(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Make OCR errors with the built-in channel; ``rate`` is the expected share of characters that are wrong."""
    channel = EditChannel.read(DEFAULT)
    mean_rate = np.mean([1 - channel.keep_prob(character) for character in clean or " "])
    return channel.scale_error_rate(rate / float(mean_rate)).corrupt(clean, generator)


def corrupt_mojibake(clean: str, rate: float, generator: np.random.Generator) -> str:
    """Decode the UTF-8 of lines as Windows-1252; ``rate`` is the probability of each line.

    Bytes that Windows-1252 does not define become U+FFFD.
    """
    lines = clean.split("\n")
    chosen = generator.random(len(lines)) < rate
    return "\n".join(
        line.encode().decode("windows-1252", "replace") if is_chosen else line
        for line, is_chosen in zip(lines, chosen, strict=True)
    )


# Name of a channel -> a function of a clean text, the rate of damage (0 to 1) and a source of randomness, which returns
# the damaged text. What the rate counts is stated by each function.
CORRUPT: dict[str, Corrupt] = {
    OCR: corrupt_ocr,
    MOJIBAKE: corrupt_mojibake,
    HYPHENATION: corrupt_hyphenation,
    SPACES: corrupt_spaces,
    CASE: corrupt_case,
    TYPING: corrupt_typing,
}
