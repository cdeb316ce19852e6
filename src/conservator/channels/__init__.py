"""How a document was damaged: memoryless channels p_c(y | x) = prod_l p_c(y_l | x_l)."""

from conservator.channels.channel import Channel, Observation
from conservator.channels.confusion import ConfusionChannel
from conservator.channels.mask import MaskChannel
from conservator.channels.replacement import ReplacementChannel

__all__ = ["Channel", "ConfusionChannel", "MaskChannel", "Observation", "ReplacementChannel"]
