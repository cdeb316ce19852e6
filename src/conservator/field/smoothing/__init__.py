"""Smoothing along the sequence: the penalty tau * sum_l |lambda_l - lambda_{l-1}|, and its variants."""

from conservator.field.smoothing.fused_lasso import fused_lasso
from conservator.field.smoothing.smoother import (
    GroupTotalVariation,
    MovingAverage,
    NoSmoothing,
    PerColumn,
    Smoothed,
    Smoother,
    TotalVariation,
)

__all__ = [
    "GroupTotalVariation",
    "MovingAverage",
    "NoSmoothing",
    "PerColumn",
    "Smoothed",
    "Smoother",
    "TotalVariation",
    "fused_lasso",
]
