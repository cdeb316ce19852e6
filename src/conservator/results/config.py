"""Thresholds of the results package."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultConfig:
    """Thresholds that summaries, notices and records use.

    A text is out of domain if its cross-entropy exceeds ``max_cross_entropy + cross_entropy_per_lost_share * s`` by
    more than ``domain_standard_errors`` standard errors; s is the lost share of the positions that were read.
    """

    # probability: from here on a byte, character or change counts as confident [definition]
    min_confident: float = 0.9
    # nats per byte: held-out texts of the experts' domains stay below, prose in other languages is above
    # [LOG: sampling-the-evidence]
    max_cross_entropy: float = 1.9
    # nats per byte: increase of that limit if all positions are lost [LOG: sampling-the-evidence]
    cross_entropy_per_lost_share: float = 2.0
    # standard errors: margin that short samples need [LOG: undetermined-text]
    domain_standard_errors: float = 2.5
    # nats per byte: with a smaller local gain, a global weight restores all but one lost byte in 400
    # [LOG: local-and-global-weights]
    min_local_gain: float = 0.05
    # share: a notice reports a larger part of a text that no model covers [untuned]
    min_uncovered_share: float = 0.05
    # bytes: lost text within this distance of a changed fixed text is restored again [untuned]
    renewal_radius_bytes: int = 256
    # bins: maximum number of points of the curves along a document [untuned]
    max_curve_bins: int = 480


RESULTS = ResultConfig()
