"""A two-sided expert over tokens that speaks about bytes, so that it composes with any other."""

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.experts.expert import At, Context, Expert, ExpertSpec, ask, check_context, copy_visible
from conservator.experts.segmentation.lattice import SegmentationLattice
from conservator.experts.segmentation.masked_sequences import (
    COUNTS,
    Reading,
    as_reading,
    likely_counts,
    log_prior,
    window_of,
)
from conservator.experts.segmentation.spans import find_stretches, visible_parts
from conservator.vocabularies import BYTES, Tokens

USUAL, PRIOR = 4.0, 16  # bytes of a token, as if so many tokens had been seen
DOUBT = 0.02  # the probability that the true cover was not tried, and a byte may be anything

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Laws = NDArray[np.floating]


class ByteMarginalExpert:
    """An expert over tokens as an expert over bytes.

    A hidden byte leaves open which token it belongs to, and how many tokens there are. So a stretch of text around it
    is covered by k masks, the expert predicts a token at each, and all covers of the stretch by k tokens that agree
    with its visible bytes are summed (``SegmentationLattice``). Several k are weighed by how well they agree with the visible bytes,
    and by how many tokens a text of that length has:

        p(byte) = sum_k  P(k) Z_k / sum_k' P(k') Z_k'  p_k(byte)

    The tokens of a stretch count as independent, given what is visible. For a stretch of one token, that is exact; else
    a decoder that fills in the surer bytes first, and asks again, makes up for most of it. With ``covers``, so many of
    the most likely covers are scored again by their joint probability, token after token, and no others count.
    """

    def __init__(self, expert: Expert, covers: int = 0) -> None:
        """Take an expert whose vocabulary has text, and how many covers are scored by their joint probability."""
        vocabulary = expert.spec.vocabulary
        if not isinstance(vocabulary, Tokens):
            raise ConservatorError(f"the tokens of the expert {expert.spec.name!r} stand for no text")
        self.expert, self.tokens, self.covers = expert, vocabulary, covers
        self.spec: ExpertSpec = replace(expert.spec, vocabulary=BYTES, max_length=None, takes_time=False)

    def predict(self, context: Context, at: At) -> Tensor:
        """Return log p(x_l = v | visible bytes) at the positions ``at``: (n, 256), float32."""
        check_context(self.spec, context)
        rows = torch.where(context.hidden, BYTES.mask, context.tokens)
        found = torch.full((len(at[0]), BYTES.size), -math.log(BYTES.size), dtype=torch.float32)
        for number in at[0][context.hidden[at]].unique().tolist():
            row = rows[number][context.real[number]].numpy()
            laws = self.byte_conditionals(row)
            for place in (at[0] == number).nonzero()[:, 0].tolist():
                law = laws.get(int(at[1][place]))
                if law is not None:
                    found[place] = torch.from_numpy(np.log((1 - DOUBT) * law + DOUBT / BYTES.size))
        return copy_visible(found, context, at)

    def byte_conditionals(self, row: Ints) -> dict[int, Floats]:
        """The law (256,) of each hidden byte of a row (L,), in which the mask of ``BYTES`` stands for hidden bytes."""
        stretches = find_stretches(row, self.tokens)
        try:
            parts = [self.tokens.tokenize(part.decode(errors="replace")) for part in visible_parts(row, stretches)]
        except ConservatorError:  # a byte without a token
            return {}
        seen = len(row) - sum(len(one.pattern) for one in stretches)
        size = (USUAL * PRIOR + seen) / (PRIOR + sum(map(len, parts)))
        longest = self.expert.spec.max_length
        counts = [likely_counts(len(one.pattern), size, self.tokens, longest) for one in stretches]
        readings = [
            as_reading(parts, [one[rank % len(one)] if one else 0 for one in counts], self.tokens.mask)
            for rank in range(COUNTS)
        ]
        laws = [self.laws(reading) for reading in readings]
        found: dict[int, Floats] = {}
        for number, (stretch, numbers) in enumerate(zip(stretches, counts, strict=True)):
            covers = SegmentationLattice(stretch, self.tokens)
            ways = [self.ways(covers, laws[rank][number], readings[rank], number) for rank in range(len(numbers))]
            scores = np.array([total for total, _ in ways]) + log_prior(np.array(numbers), len(stretch.pattern) / size)
            if np.isfinite(scores).any():
                weights = np.exp(scores - scores.max())
                law = np.einsum("k,knv->nv", weights / weights.sum(), np.stack([one for _, one in ways]))
                found |= {stretch.start + place: one for place, one in zip(stretch.hidden, law, strict=True)}
        return found

    def ways(self, covers: SegmentationLattice, log_probs: Laws, reading: Reading, number: int) -> tuple[float, Floats]:
        """As in ``SegmentationLattice.byte_conditionals``, with as many tokens as a reading has masks; by their joint law, if asked for."""
        if not self.covers or len(log_probs) == 1:
            return covers.byte_conditionals(log_probs)
        best = covers.best(log_probs, self.covers)
        spelt = {cover: tuple(self.tokens.token_ids[list(cover)].tolist()) for cover in best}
        start, stop = window_of(reading, number, self.expert.spec.max_length)
        first = reading.masks[number][0] - start
        prefixes = sorted({one[:length] for one in spelt.values() for length in range(1, len(log_probs))})
        tokens = torch.from_numpy(reading.tokens[start:stop]).repeat(len(prefixes), 1)
        for row, prefix in enumerate(prefixes):
            tokens[row, first : first + len(prefix)] = torch.tensor(prefix)
        at = torch.arange(len(prefixes)), torch.tensor([first + len(prefix) for prefix in prefixes])
        after: dict[tuple[int, ...], Laws] = {(): log_probs[0]}
        if prefixes:
            rows = ask(self.expert, Context(tokens, tokens == self.tokens.mask), at).numpy()
            after |= dict(zip(prefixes, rows, strict=True))
        joint = {
            cover: math.fsum(after[one[:place]][token] for place, token in enumerate(one))
            for cover, one in spelt.items()
        }
        return covers.spelt(joint)

    def laws(self, reading: Reading) -> list[Laws]:
        """The laws (k, V) of the k masks of each stretch, each read with as much text around it as the expert takes."""
        found = {number: np.zeros((0, self.tokens.size), dtype=np.float32) for number in range(len(reading.masks))}
        windows: dict[tuple[int, int], list[int]] = {}
        for number in (number for number, (_, count) in enumerate(reading.masks) if count):
            windows.setdefault(window_of(reading, number, self.expert.spec.max_length), []).append(number)
        for (start, stop), numbers in windows.items():
            tokens = torch.from_numpy(reading.tokens[start:stop])[None]
            spans = [reading.masks[number] for number in numbers]
            places = torch.cat([torch.arange(first, first + count) - start for first, count in spans])
            at = torch.zeros_like(places), places
            rows = ask(self.expert, Context(tokens, tokens == self.tokens.mask), at).numpy()
            found |= dict(zip(numbers, np.split(rows, np.cumsum([count for _, count in spans])[:-1]), strict=True))
        return [found[number] for number in range(len(reading.masks))]
