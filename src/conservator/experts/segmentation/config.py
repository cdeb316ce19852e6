"""Constants of the segmentation of damaged text into tokens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SegmentationConfig:
    """Spans around hidden bytes, and the prior of their numbers of tokens."""

    bytes_per_token: float = 4.0  # bytes: prior mean of the length of a token [untuned]
    prior_tokens: int = 16  # tokens: weight of the prior mean, in observations [untuned]
    max_counts: int = 3  # counts: numbers of tokens that are tried for a span [untuned]
    # tokens: variance of the number of tokens in a span, per expected token plus one [untuned]
    count_variance: float = 0.2
    uniform_mix: float = 0.02  # probability: the true segmentation was not tried, and a byte is uniform [untuned]
    max_context_bytes: int = 24  # bytes: maximum distance between the end of a span and a hidden byte [untuned]


SEGMENTATION_CONFIG = SegmentationConfig()
