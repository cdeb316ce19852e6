"""Channels: how a document was damaged, and the resulting observation.

Memoryless channels factorise, p_c(y | x) = prod_l p_c(y_l | x_l). The edit channel changes lengths.
"""

from conservator.channels.channel import Channel
from conservator.channels.character_mask import CharacterMaskChannel, CharacterMaskLikelihood
from conservator.channels.confusion import ConfusionChannel
from conservator.channels.corruption import CORRUPT
from conservator.channels.edits import EditChannel
from conservator.channels.likelihood import Likelihood
from conservator.channels.mask import MaskChannel
from conservator.channels.observation import Excerpt, Observation, Status
from conservator.channels.ocr_calibration import CalibrationCurve, CharacterConfidence, OcrCalibration, calibration_of
from conservator.channels.ocr_confidence import OcrConfidence
from conservator.channels.registry import (
    as_channel,
    as_edit_channel,
    check_channels,
    needs_experts,
    split_channels,
)
from conservator.channels.replacement import ReplacementChannel
from conservator.channels.token_dependent import TokenDependentMaskChannel

__all__ = [
    "CORRUPT",
    "CalibrationCurve",
    "Channel",
    "CharacterConfidence",
    "CharacterMaskChannel",
    "CharacterMaskLikelihood",
    "ConfusionChannel",
    "EditChannel",
    "Excerpt",
    "Likelihood",
    "MaskChannel",
    "Observation",
    "OcrCalibration",
    "OcrConfidence",
    "ReplacementChannel",
    "Status",
    "TokenDependentMaskChannel",
    "as_channel",
    "as_edit_channel",
    "calibration_of",
    "check_channels",
    "needs_experts",
    "split_channels",
]
