"""Channels by name, as the command line and the page take them."""

from conservator.channels.channel import Channel
from conservator.channels.mask import MaskChannel
from conservator.channels.replacement import ReplacementChannel
from conservator.errors import OptionError

NAMES = "mask, or replacement:RATE such as replacement:0.05"


def as_channel(channel: str | Channel, vocab_size: int) -> Channel:
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
