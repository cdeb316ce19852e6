"""Token experts that speak about bytes: all ways to cover damaged text by tokens, summed."""

from conservator.experts.covering.expert import InBytes
from conservator.experts.covering.lattice import Covers
from conservator.experts.covering.stretches import Stretch, find_stretches

__all__ = ["Covers", "InBytes", "Stretch", "find_stretches"]
