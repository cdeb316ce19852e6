"""What networks and memory leave in doubt, written again by language models."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from conservator.decoders import Candidate, DecodedText
from conservator.decoders.rescoring import BLOCK, ROUNDS, Judged, Rescored, rewrite
from conservator.documents import DamagedDocument
from conservator.errors import ConservatorError
from conservator.experts import Meter
from conservator.experts.causal import CausalExpert, byte_conditionals
from conservator.field import infer_causal_field
from conservator.numerics import runs
from conservator.vocabularies import BYTES

# What makes the probabilities of fills honest, on documents kept apart, where a run of n bytes is open: the power of
# the posterior is SHARPNESS / (1 + BLUNTER (n - 1)), and with the probability OUTSIDE + FURTHER (n - 1) the true fill
# is none of those that were found.
SHARPNESS, BLUNTER = 0.7, 0.5
OUTSIDE, FURTHER, FURTHEST = 0.02, 0.03, 0.6
SURE = 0.99  # the confidence from which what networks and memory say is not asked again
BALANCE = 0.5  # the weight of what networks and memory say of a byte, beside weight 1 of the language models
LOOKED_AT = 3  # tokens that are read for each lost byte, on average, where a tenth of the bytes is lost
MEASURED = 300  # characters that are read to tell how long it will take
LEAST = -12.0  # nats: no byte is less likely than this by networks and memory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rescorer:
    """Language models, and how much they are trusted beside networks and memory.

    Attributes:
        experts: m causal experts.
        balance: the weight of the log-probabilities of networks and memory, where those of the language models have a
            weight of 1; fitted on documents kept apart.
        confidence_threshold: the confidence from which a byte is not asked again.
    """

    experts: Sequence[CausalExpert]
    balance: float = BALANCE
    confidence_threshold: float = SURE

    def __call__(
        self, damaged: DamagedDocument, positions: Ints, decoded: DecodedText, meter: Meter
    ) -> "RescoringResult":
        """Write the lost bytes again that are in doubt.

        Args:
            damaged: the document.
            positions: (n,) the positions that networks and memory have read.
            decoded: what they say there.
            meter: counts the tokens that are read.
        """
        tokens = damaged.tokens.astype(np.int64)
        lost = tokens[positions] == BYTES.mask
        tokens[positions] = decoded.tokens
        doubt = decoded.confidence[lost] < self.confidence_threshold
        places = positions[lost][doubt]
        laws = decoded.log_probs[doubt].double().clamp_min(LEAST).numpy()
        energies = dict(zip(places.tolist(), self.balance * laws, strict=True))
        text = tokens.astype(np.uint8).tobytes()
        weights = self.weights(text, damaged.tokens != BYTES.mask, meter)
        found = calibrated(rewrite(self.experts, weights, text, places, energies, meter))
        chosen, confidence = decoded.tokens.copy(), decoded.confidence.copy()
        for number in np.flatnonzero(lost).tolist():
            place = int(positions[number])
            if place in found.confidence:
                chosen[number], confidence[number] = found.text[place], found.confidence[place]
        shares = np.zeros((len(positions), len(self.experts)))
        judged = np.isin(positions, list(found.confidence))
        shares[judged] = weights[positions[judged]] / (1 + self.balance)
        return RescoringResult(replace(decoded, tokens=chosen, confidence=confidence), found, shares)

    def seconds(self, text: str, lost: int) -> float:
        """About how long it takes to write a text again in which so many bytes are lost; a little of it is read."""
        text = "".join(character for character in text if character.isprintable() or character.isspace())
        total = 0.0
        for one in self.experts:
            tokens = one.spec.tokens.tokenize(text[:MEASURED])
            for _ in range(2):  # the first time is not typical
                began = time.perf_counter()
                one.read().grow(range(len(tokens)), tokens, range(len(tokens)))
                taken = time.perf_counter() - began
            evidence_radius = min(len(text), lost * BLOCK) * len(tokens) / max(1, len(text[:MEASURED]))
            total += (ROUNDS * evidence_radius + LOOKED_AT * lost) * taken / max(1, len(tokens))
        return total

    def weights(self, text: bytes, visible: NDArray[np.bool_], meter: Meter | None = None) -> Floats:
        """(L, m) the weight of each language model at each byte: the field, by how they predict the visible bytes.

        Equal weights, if one of them has no token for some character. The meter says when time is over.
        """
        count, meter, laws = len(self.experts), meter or Meter(), list[Tensor]()
        try:
            for one in self.experts if count > 1 else ():
                meter.check()
                laws.append(byte_conditionals(one, text))
        except ConservatorError:
            laws = []
        if not laws:
            return np.full((len(text), count), 1 / count)
        return infer_causal_field(laws, np.frombuffer(text, dtype=np.uint8).astype(np.int64), visible).field


def calibrated(found: Rescored) -> Rescored:
    """The same text with honest probabilities.

    Its posterior is too sure of itself: the models are not the law of the text, regions are judged given others that
    may be wrong, and a fill that the search has dropped may be the true one.
    """
    soft: dict[int, Judged] = {}
    for one in found.judged.values():
        more = longest_run(one.region.open) - 1
        powers = {fill: share ** (SHARPNESS / (1 + BLUNTER * more)) for fill, share in one.fills.items()}
        total = sum(powers.values()) / (1 - min(FURTHEST, OUTSIDE + FURTHER * more))
        soft[id(one)] = Judged(one.region, {fill: power / total for fill, power in powers.items()})
    judged = {place: soft[id(one)] for place, one in found.judged.items()}
    confidence = {place: one.marginal(place, found.text[place]) for place, one in judged.items()}
    return Rescored(found.text, confidence, judged)


def longest_run(places: Sequence[int]) -> int:
    """The length of the longest run of neighbours among ascending places."""
    return int(np.bincount(np.cumsum(np.diff(places, prepend=places[0]) > 1)).max())


@dataclass(frozen=True)
class RescoringResult:
    """What came of writing a document again.

    Attributes:
        decoded: the text and its confidence.
        found: the posterior of the fills of each region.
        shares: (n, m) the weight of each language model in what was chosen at each position that was read.
    """

    decoded: DecodedText
    found: Rescored
    shares: Floats

    def fills(
        self, positions: Ints, lost: NDArray[np.bool_], others: Sequence[tuple[Candidate, ...]]
    ) -> list[tuple[Candidate, ...]]:
        """The best joint fills of each run of lost bytes: as language models judge them; else the ``others``.

        The fill that the text has comes first.
        """
        merged = []
        for (start, stop), other in zip(runs(lost), others, strict=True):
            judged = self.found.fills_of(int(positions[start]), int(positions[stop - 1]) + 1)
            own = bytes(self.decoded.tokens[start:stop].tolist())
            ordered = sorted(judged.items(), key=lambda one: (one[0] != own, -one[1]))
            merged.append(
                tuple(Candidate(data, share) for data, share in ordered[: len(other)]) if own in judged else other
            )
        return merged
