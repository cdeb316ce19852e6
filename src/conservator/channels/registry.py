"""Channels by name, as the command line and the page take them."""

from pathlib import Path

from conservator.channels.channel import Channel
from conservator.channels.edits import EditChannel
from conservator.channels.mask import MaskChannel
from conservator.channels.replacement import ReplacementChannel
from conservator.errors import OptionError

NAMES = "mask, replacement:RATE such as replacement:0.05, ocr, or the file of a fitted channel (NAME.json)"
OCR = "ocr"
DEFAULT = Path(__file__).parent / "ocr.json"  # fitted to pages that were typeset, degraded and read by Tesseract


def as_edit_channel(channel: object) -> EditChannel | None:
    """An edit channel as it is, that of ``ocr``, or that of a file; None for what names another channel."""
    if isinstance(channel, EditChannel):
        return channel
    if channel == OCR:
        return EditChannel.read(DEFAULT)
    if isinstance(channel, Path) or (isinstance(channel, str) and channel.endswith(".json")):
        return EditChannel.read(Path(channel))
    return None


def as_channel(channel: object, vocab_size: int) -> Channel:
    """A channel as it is, or the channel of a name: ``mask``, or ``replacement:RATE``.

    The rate of a mask channel changes nothing in a restoration, because marks show what was lost.
    """
    if isinstance(channel, Channel):
        return channel
    if not isinstance(channel, str):
        raise OptionError("channel", f"a {type(channel).__name__}; it must be a Channel or the name of one")
    kind, colon, rate = channel.partition(":")
    if channel == "mask":
        return MaskChannel(vocab_size, 0.5)
    if kind == "replacement" and colon:
        try:
            share = float(rate)
        except ValueError:
            share = -1.0
        if 0 < share < 1:
            return ReplacementChannel(vocab_size, share)
        raise OptionError("channel", f"{channel!r}: the rate must be a number between 0 and 1, as in replacement:0.05")
    raise OptionError("channel", f"no channel {channel!r}; known: {NAMES}")
