"""A masked expert over tokens as an expert over bytes, so that it composes with any other."""

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, Expert, ExpertSpec, check_context, checked_predict, copy_visible
from conservator.experts.segmentation.config import SEGMENTATION_CONFIG
from conservator.experts.segmentation.lattice import SegmentationLattice
from conservator.experts.segmentation.masked_sequences import (
    MaskedSequence,
    as_masked_sequence,
    likely_counts,
    log_prior,
    window_of,
)
from conservator.experts.segmentation.spans import find_masked_spans, visible_parts
from conservator.vocabularies import BYTES, Tokens


class ByteMarginalExpert:
    """An expert over tokens as an expert over bytes.

    A hidden byte makes the tokenization around it ambiguous. So a span around it is replaced by k masks, the expert
    predicts a token at each mask, and all segmentations of the span into k tokens that match its visible bytes are
    summed (``SegmentationLattice``). Several k are weighted by the probability Z_k of the visible bytes and by the
    prior P(k) of the number of tokens in a span of that length:

        p(byte) = sum_k  P(k) Z_k / sum_k' P(k') Z_k'  p_k(byte)

    The tokens of a span are independent given the visible bytes. This is exact for a span of one token; for longer
    spans, a decoder that fills confident bytes first and predicts again recovers most of the dependence.
    """

    def __init__(self, expert: Expert) -> None:
        """Wrap an expert whose tokens have text."""
        vocabulary = expert.spec.vocabulary
        if not isinstance(vocabulary, Tokens):
            raise ConservatorError(
                f"expert {expert.spec.name!r} must have a vocabulary of tokens with text (Tokens), got "
                f"{type(vocabulary).__name__}"
            )
        self.expert, self.tokens = expert, vocabulary
        self.spec: ExpertSpec = replace(expert.spec, vocabulary=BYTES, max_length=None, takes_time=False)

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible bytes) at the positions ``at``: (n, 256), float32."""
        check_context(self.spec, context)
        rows = torch.where(context.hidden, BYTES.mask, context.tokens)
        log_probs = torch.full((len(at[0]), BYTES.size), -math.log(BYTES.size), dtype=torch.float32)
        mix = SEGMENTATION_CONFIG.uniform_mix
        for number in at[0][context.hidden[at]].unique().tolist():
            row = rows[number][context.real[number]].numpy()
            conditionals = self.byte_conditionals(row)
            for index in (at[0] == number).nonzero()[:, 0].tolist():
                probs = conditionals.get(int(at[1][index]))
                if probs is not None:
                    log_probs[index] = torch.from_numpy(np.log((1 - mix) * probs + mix / BYTES.size))
        return copy_visible(log_probs, context, at)

    def byte_conditionals(self, row: Ints) -> dict[int, Floats]:
        """Return the distribution (256,) of each hidden byte of a row (L,), by position.

        Hidden bytes of ``row`` are the mask of ``BYTES``. Bytes of spans that have no segmentation are missing from
        the result.
        """
        spans = find_masked_spans(row, self.tokens)
        try:
            parts = [self.tokens.tokenize(part.decode(errors="replace")) for part in visible_parts(row, spans)]
        except ConservatorError:  # a byte without a token
            return {}
        config, max_length = SEGMENTATION_CONFIG, self.expert.spec.max_length
        visible_bytes = len(row) - sum(len(span.pattern) for span in spans)
        bytes_per_token = (config.bytes_per_token * config.prior_tokens + visible_bytes) / (
            config.prior_tokens + sum(map(len, parts))
        )
        counts = [likely_counts(len(span.pattern), bytes_per_token, self.tokens, max_length) for span in spans]
        sequences = [
            as_masked_sequence(parts, [some[rank % len(some)] if some else 0 for some in counts], self.tokens.mask)
            for rank in range(config.max_counts)
        ]
        token_log_probs = [self.token_conditionals(sequence) for sequence in sequences]
        conditionals: dict[int, Floats] = {}
        for index, (span, span_counts) in enumerate(zip(spans, counts, strict=True)):
            lattice = SegmentationLattice(span, self.tokens)
            results = [lattice.byte_conditionals(token_log_probs[rank][index]) for rank in range(len(span_counts))]
            log_weights = np.array([log_total for log_total, _ in results]) + log_prior(
                np.array(span_counts), len(span.pattern) / bytes_per_token
            )
            if np.isfinite(log_weights).any():
                weights = np.exp(log_weights - log_weights.max())
                probs = np.einsum("k,knv->nv", weights / weights.sum(), np.stack([table for _, table in results]))
                conditionals |= {span.start + hidden: each for hidden, each in zip(span.hidden, probs, strict=True)}
        return conditionals

    def token_conditionals(self, sequence: MaskedSequence) -> list[NDArray[np.floating]]:
        """Return log-probabilities (k, V) of the k masks of each span; windows are as long as the expert allows."""
        empty = np.zeros((0, self.tokens.size), dtype=np.float32)
        conditionals: dict[int, NDArray[np.floating]] = dict.fromkeys(range(len(sequence.masks)), empty)
        windows: dict[tuple[int, int], list[int]] = {}
        for index in (index for index, (_, count) in enumerate(sequence.masks) if count):
            windows.setdefault(window_of(sequence, index, self.expert.spec.max_length), []).append(index)
        for (start, stop), indices in windows.items():
            tokens = torch.from_numpy(sequence.tokens[start:stop])[None]
            masks = [sequence.masks[index] for index in indices]
            columns = torch.cat([torch.arange(first, first + count) - start for first, count in masks])
            at = torch.zeros_like(columns), columns
            rows = checked_predict(self.expert, Context(tokens, tokens == self.tokens.mask), at).numpy()
            conditionals |= dict(
                zip(indices, np.split(rows, np.cumsum([count for _, count in masks])[:-1]), strict=True)
            )
        return [conditionals[index] for index in range(len(sequence.masks))]
