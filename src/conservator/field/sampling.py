"""Samples of the visible text: short spans, spread over a document, that identify the relevant experts."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import Observation


@dataclass(frozen=True)
class SamplingConfig:
    """Size and distance of the sampled spans."""

    span_positions: int = 96  # positions: length of a sampled span [LOG: sampling-the-evidence]
    margin_positions: int = 16  # positions: context on either side of a span [LOG: sampling-the-evidence]
    max_period: int = 640  # positions: distance of span starts in a long document [LOG: sampling-the-evidence]
    min_spans: int = 20  # spans: of a shorter document, if they do not overlap [untuned]


CONFIG = SamplingConfig()


def positions_of(observation: Observation) -> Tensor:
    """Return (L,) the positions in the whole sequence that an observation (N, L) covers."""
    excerpt = observation.excerpt
    return torch.arange(observation.tokens.shape[1]) if excerpt is None else excerpt.positions


def sample_spans(eligible: Tensor, observation: Observation) -> Tensor:
    """Return (L,) the index of the sampled span that contains each position; -1 outside of the sample.

    Args:
        eligible: (N, L) True where the sample may be taken.
        observation: (N, L).
    """
    positions, any_row = positions_of(observation), eligible.any(dim=0)
    period = min(CONFIG.max_period, max(CONFIG.span_positions, int(any_row.sum()) // CONFIG.min_spans))
    inside = any_row & (positions % period < CONFIG.span_positions)
    return (positions // period).masked_fill(~inside, -1)


def spread(span_index: Tensor, max_spans: int) -> Tensor:
    """Return (L,) True in at most ``max_spans`` sampled spans, evenly spread over all of them."""
    spans = span_index[span_index >= 0].unique()
    return torch.isin(span_index, spans[torch.linspace(0, len(spans) - 1, min(len(spans), max_spans)).round().long()])
