"""How a document was damaged: memoryless channels p_c(y | x) = prod_l p_c(y_l | x_l), and what was observed."""

from conservator.channels.channel import Channel
from conservator.channels.confusion import ConfusionChannel
from conservator.channels.edits import EditChannel
from conservator.channels.likelihood import Likelihood
from conservator.channels.mask import MaskChannel
from conservator.channels.observation import Excerpt, Observation, Status
from conservator.channels.ocr_calibration import Calibration, Curve, Said, calibration_of
from conservator.channels.ocr_confidence import Trust
from conservator.channels.registry import as_channel, as_edits
from conservator.channels.replacement import ReplacementChannel
from conservator.channels.token_dependent import UnevenMaskChannel

__all__ = [
    "Calibration",
    "Channel",
    "ConfusionChannel",
    "Curve",
    "EditChannel",
    "Excerpt",
    "Likelihood",
    "MaskChannel",
    "Observation",
    "ReplacementChannel",
    "Said",
    "Status",
    "Trust",
    "UnevenMaskChannel",
    "as_channel",
    "as_edits",
    "calibration_of",
]
