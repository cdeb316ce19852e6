"""Token experts over bytes: sums over all segmentations of damaged text into tokens."""

from conservator.experts.segmentation.expert import ByteMarginalExpert
from conservator.experts.segmentation.lattice import SegmentationLattice
from conservator.experts.segmentation.spans import MaskedSpan, find_masked_spans

__all__ = ["ByteMarginalExpert", "MaskedSpan", "SegmentationLattice", "find_masked_spans"]
