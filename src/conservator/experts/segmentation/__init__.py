"""Token experts that speak about bytes: all ways to cover damaged text by tokens, summed."""

from conservator.experts.segmentation.expert import ByteMarginalExpert
from conservator.experts.segmentation.lattice import SegmentationLattice
from conservator.experts.segmentation.spans import Stretch, find_stretches

__all__ = ["ByteMarginalExpert", "SegmentationLattice", "Stretch", "find_stretches"]
