"""Channels by name, for the command line and the web page."""

from pathlib import Path
from typing import Any

from conservator.channel_names import AUTO, OCR, TEXT_CHANNELS
from conservator.channels.channel import Channel
from conservator.channels.edits import EditChannel
from conservator.channels.mask import MaskChannel
from conservator.channels.replacement import ReplacementChannel
from conservator.errors import OptionError

NAMES = (
    f"auto, mask, replacement:RATE (such as replacement:0.05), ocr, {', '.join(TEXT_CHANNELS)}, or the file of a "
    "fitted channel (NAME.json); several are separated by commas"
)
DEFAULT = Path(__file__).parent / "ocr.json"  # fitted to typeset and degraded pages, recognised by Tesseract
MASK_RATE = 0.5  # probability: of the mask channel; it does not affect a restoration [definition]


def split_channels(channel: Any) -> tuple[Any, ...]:
    """Return the channels that an option names, in order: ``typing,case`` are two."""
    if isinstance(channel, str):
        return tuple(name.strip() for name in channel.split(","))
    return (channel,)


def needs_experts(channel: Any) -> bool:
    """Return whether a restoration needs experts: not if all channels have errors in visible text only."""
    return any(as_edit_channel(part) is None and part not in TEXT_CHANNELS for part in split_channels(channel))


def check_channels(channel: Any, vocab_size: int) -> None:
    """Raise an OptionError for the name of a channel that does not exist."""
    if channel == AUTO:
        return
    for part in split_channels(channel):
        if part not in TEXT_CHANNELS and as_edit_channel(part) is None:
            as_channel(part, vocab_size)


def as_edit_channel(channel: object) -> EditChannel | None:
    """Return an edit channel unchanged, or the one of ``ocr`` or of a file; None for any other channel."""
    if isinstance(channel, EditChannel):
        return channel
    if channel == OCR:
        return EditChannel.read(DEFAULT)
    if isinstance(channel, Path) or (isinstance(channel, str) and channel.endswith(".json")):
        return EditChannel.read(Path(channel))
    return None


def as_channel(channel: object, vocab_size: int) -> Channel:
    """Return a channel unchanged, or the channel with the name ``mask`` or ``replacement:RATE``.

    The rate of a mask channel does not affect a restoration, because marks show the lost positions.
    """
    if isinstance(channel, Channel):
        return channel
    if not isinstance(channel, str):
        raise OptionError("channel", f"it must be a Channel or the name of a channel, got a {type(channel).__name__}")
    kind, colon, rate = channel.partition(":")
    if channel == AUTO:
        raise OptionError("channel", "auto detects the channels, so it must be the only one")
    if channel == "mask":
        return MaskChannel(vocab_size, MASK_RATE)
    if kind == "replacement" and colon:
        try:
            value = float(rate)
        except ValueError:
            value = -1.0
        if 0 < value < 1:
            return ReplacementChannel(vocab_size, value)
        raise OptionError(
            "channel", f"the rate must be a number between 0 and 1, as in replacement:0.05, got {channel!r}"
        )
    raise OptionError("channel", f"no channel {channel!r}; known: {NAMES}")
