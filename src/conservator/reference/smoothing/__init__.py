"""Smoothing along the sequence: the penalty tau * sum_l |lambda_l - lambda_{l-1}|, and its variants."""

from conservator.reference.smoothing.fused_lasso import fused_lasso
from conservator.reference.smoothing.smoother import (
    MovingAverage,
    NoSmoothing,
    PerColumn,
    Smoothed,
    Smoother,
    TotalVariation,
)

__all__ = ["MovingAverage", "NoSmoothing", "PerColumn", "Smoothed", "Smoother", "TotalVariation", "fused_lasso"]
