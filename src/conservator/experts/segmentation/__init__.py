"""Token experts that speak about bytes: all ways to cover damaged text by tokens, summed."""

from conservator.experts.segmentation.expert import InBytes
from conservator.experts.segmentation.lattice import Covers
from conservator.experts.segmentation.spans import Stretch, find_stretches

__all__ = ["Covers", "InBytes", "Stretch", "find_stretches"]
