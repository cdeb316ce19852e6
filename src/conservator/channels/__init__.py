"""How a document was damaged: memoryless channels p_c(y | x) = prod_l p_c(y_l | x_l), and what was observed."""

from conservator.channels.channel import Channel
from conservator.channels.confusion import ConfusionChannel
from conservator.channels.edits import EditChannel
from conservator.channels.likelihood import Likelihood
from conservator.channels.mask import MaskChannel
from conservator.channels.observation import Excerpt, Observation, Status
from conservator.channels.ocr_calibration import Calibration, CharacterConfidence, Curve, calibration_of
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.channels.registry import as_channel, as_edit_channel
from conservator.channels.replacement import ReplacementChannel
from conservator.channels.token_dependent import TokenDependentMaskChannel

__all__ = [
    "Calibration",
    "Channel",
    "CharacterConfidence",
    "ConfusionChannel",
    "Curve",
    "EditChannel",
    "Excerpt",
    "Likelihood",
    "MaskChannel",
    "Observation",
    "OcrConfidence",
    "ReplacementChannel",
    "Status",
    "TokenDependentMaskChannel",
    "as_channel",
    "as_edit_channel",
    "calibration_of",
]
