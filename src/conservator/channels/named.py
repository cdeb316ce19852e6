"""Channels by name, as the command line and the page take them."""

from conservator.channels.channel import Channel
from conservator.channels.mask import MaskChannel
from conservator.channels.replacement import ReplacementChannel
from conservator.errors import OptionError

NAMES = "mask, or replacement:RATE such as replacement:0.05"


def named_channel(name: str, vocab_size: int) -> Channel:
    """The channel of that name: ``mask``, or ``replacement:RATE``.

    The rate of a mask channel does not affect a restoration, because the marks show which tokens are lost.
    """
    kind, colon, rate = name.partition(":")
    if name == "mask":
        return MaskChannel(vocab_size, 0.5)
    if kind == "replacement" and colon:
        try:
            share = float(rate)
        except ValueError:
            share = -1.0
        if 0 < share < 1:
            return ReplacementChannel(vocab_size, share)
        raise OptionError("channel", f"{name!r}: the rate must be a number between 0 and 1, as in replacement:0.05")
    raise OptionError("channel", f"no channel {name!r}; known: {NAMES}")
