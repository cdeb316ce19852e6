"""Rescoring: language models score candidates for the bytes that networks and memory restore with low confidence."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.arrays import Floats, Ints
from conservator.channels import Observation
from conservator.decoders import Candidate, DecodedText
from conservator.decoders.rescoring import (
    CHUNK_BYTES,
    ITERATIONS,
    Draft,
    Rescored,
    Slot,
    SpanPosterior,
    longest_run,
    open_bytes,
    rescore,
)
from conservator.documents import DamagedDocument
from conservator.errors import ConservatorError
from conservator.experts import Expert, Meter
from conservator.experts.causal import CausalExpert, byte_conditionals
from conservator.field import infer_causal_field
from conservator.numerics import runs
from conservator.vocabularies import BYTES


@dataclass(frozen=True)
class RescoringConfig:
    """Constants of the rescoring of lost bytes.

    Calibration: in a span whose longest run of lost bytes has n bytes, the posterior over candidates is raised to the
    power ``inverse_temperature / (1 + temperature_slope (n - 1))``, and the correct text is none of the candidates with
    probability ``min(max_miss_prob, miss_prob + miss_prob_slope (n - 1))``.
    """

    inverse_temperature: float = 0.7  # exponent: calibrated on held-out documents [LOG: language-models]
    temperature_slope: float = 0.5  # per byte: calibrated on bursts of lost bytes [LOG: language-models]
    miss_prob: float = 0.02  # probability: a single lost byte [LOG: language-models]
    miss_prob_slope: float = 0.03  # probability per byte: calibrated on bursts of lost bytes [LOG: language-models]
    max_miss_prob: float = 0.6  # probability: bound for long runs [LOG: language-models]
    confidence_threshold: float = 0.99  # probability: more confident bytes are not rescored [LOG: language-models]
    # probability: visible bytes with a lower probability of being wrong are not rescored [LOG: uncertain-bytes]
    min_error_prob: float = 0.005
    balance: float = 0.5  # weight: networks and memory, where language models have 1 [LOG: language-models]
    min_log_prob: float = -12.0  # nats: lower bound of the byte potentials of networks and memory [untuned]
    tokens_per_lost_byte: int = 3  # tokens: read for each lost byte if a tenth of the bytes is lost [untuned]
    timing_characters: int = 300  # characters: text that is read to estimate the run time [untuned]


RESCORING = RescoringConfig()


@dataclass(frozen=True)
class Rescorer:
    """Language models that rescore lost bytes.

    Attributes:
        experts: m causal experts.
        balance: Weight of the log-probabilities of networks and memory, where the language models have weight 1.
        confidence_threshold: Lost bytes with at least this confidence are not rescored.
    """

    experts: Sequence[CausalExpert]
    balance: float = RESCORING.balance
    confidence_threshold: float = RESCORING.confidence_threshold

    def __call__(
        self,
        damaged: DamagedDocument,
        positions: Ints,
        decoded: DecodedText,
        meter: Meter,
        observation: Observation | None = None,
    ) -> "RescoringResult":
        """Rescore the lost bytes with low confidence, and the visible bytes that may be wrong.

        Args:
            damaged: The damaged document.
            positions: (n,) positions that networks and memory have read.
            decoded: Their result at these positions.
            meter: Counts the tokens that are read.
            observation: The document (1, n) that they decoded; None if all lost bytes are marked.
        """
        tokens = damaged.tokens.astype(np.int64)
        lost = tokens[positions] == BYTES.mask if observation is None else observation.lost[0].numpy()
        tokens[positions] = decoded.tokens
        is_marked = damaged.tokens[positions[lost]] == BYTES.mask
        threshold = np.where(is_marked, self.confidence_threshold, 1 - RESCORING.min_error_prob)
        uncertain = decoded.confidence[lost] < threshold
        indices = np.flatnonzero(lost)[uncertain]
        log_probs = decoded.log_probs[uncertain].double()
        log_likelihood = torch.zeros(1)
        if observation is not None and observation.likelihood.lost_is_informative:
            log_likelihood = observation[0].likelihood[indices].table()
            impossible = torch.isneginf(log_likelihood)
            log_probs = torch.log_softmax((log_probs - log_likelihood).masked_fill(impossible, -torch.inf), dim=-1)
        log_potentials = self.balance * log_probs.clamp_min(RESCORING.min_log_prob) + log_likelihood
        slots = open_bytes(positions[indices], log_potentials.numpy())
        text = tokens.astype(np.uint8).tobytes()
        visible = np.full(len(tokens), True)
        visible[positions[lost]] = False
        weights = self.weights(text, visible, meter)
        rescored = calibrate_posterior(rescore(self.experts, weights, text, slots, meter))
        new_tokens, confidence = decoded.tokens.copy(), decoded.confidence.copy()
        model_weights = np.zeros((len(positions), len(self.experts)))
        for slot, probability in rescored.confidence.items():
            index = indices[slot]
            new_tokens[index], confidence[index] = rescored.draft.current[slot][0], probability
            model_weights[index] = weights[positions[index]] / (1 + self.balance)
        decoded = replace(decoded, tokens=new_tokens, confidence=confidence)
        return RescoringResult(decoded, rescored, indices, model_weights)

    @property
    def has_language_models(self) -> bool:
        """True."""
        return True

    def choose(self, text: bytes, slots: Sequence[Slot], meter: Meter, weight: float = 1.0) -> Rescored:
        """Choose the texts of slots with listed candidates.

        Args:
            text: Valid UTF-8, with the best guess so far in the slots.
            slots: Slots, in order and disjoint.
            meter: Counts the tokens that are read.
            weight: Weight of the language models relative to the log-scores of the candidates.
        """
        if not slots:
            return Rescored(Draft.of(text, slots), {})
        weights = self.weights(text, np.ones(len(text), dtype=bool), meter)
        return rescore(self.experts, weights, text, slots, meter, expert_weight=weight)

    def estimate_seconds(self, text: str, lost: int) -> float:
        """Estimate how long a text with ``lost`` lost bytes takes, by timing the reading of its beginning."""
        text = "".join(character for character in text if character.isprintable() or character.isspace())
        sample, total = text[: RESCORING.timing_characters], 0.0
        for expert in self.experts:
            tokens = expert.spec.tokens.tokenize(sample)
            for _ in range(2):  # the first run is a warm-up
                began = time.perf_counter()
                expert.read().extend(range(len(tokens)), tokens, range(len(tokens)))
                seconds = time.perf_counter() - began
            context_tokens = min(len(text), lost * CHUNK_BYTES) * len(tokens) / max(1, len(sample))
            read_tokens = ITERATIONS * context_tokens + RESCORING.tokens_per_lost_byte * lost
            total += read_tokens * seconds / max(1, len(tokens))
        return total

    def weights(self, text: bytes, visible: NDArray[np.bool_], meter: Meter | None = None) -> Floats:
        """(L, m) weight of each language model at each byte: the field of their predictions of the visible bytes.

        The weights are equal if one of the models has no token for some character.

        Args:
            text: L bytes.
            visible: (L,) True at known bytes.
            meter: Raises an OutOfTimeError at the time limit.
        """
        count, meter, log_probs = len(self.experts), meter or Meter(), list[Tensor]()
        try:
            for expert in self.experts if count > 1 else ():
                meter.check()
                log_probs.append(byte_conditionals(expert, text))
        except ConservatorError:
            log_probs = []
        if not log_probs:
            return np.full((len(text), count), 1 / count)
        return infer_causal_field(log_probs, np.frombuffer(text, dtype=np.uint8).astype(np.int64), visible).field


def calibrate_posterior(rescored: Rescored) -> Rescored:
    """Return the same text with calibrated probabilities (``RescoringConfig``).

    The posterior is overconfident: the models only approximate the distribution of the text, each span is scored
    given other spans that may be wrong, and the search may have dropped the correct candidate.
    """
    calibrated: dict[int, SpanPosterior] = {}
    for posterior in rescored.posteriors.values():
        further_bytes = longest_run([rescored.draft.slots[slot].start for slot in posterior.slots]) - 1
        exponent = RESCORING.inverse_temperature / (1 + RESCORING.temperature_slope * further_bytes)
        miss_prob = min(RESCORING.max_miss_prob, RESCORING.miss_prob + RESCORING.miss_prob_slope * further_bytes)
        powers = {candidate: probability**exponent for candidate, probability in posterior.candidates.items()}
        total = sum(powers.values()) / (1 - miss_prob)
        calibrated[id(posterior)] = SpanPosterior(
            posterior.slots, {text: power / total for text, power in powers.items()}
        )
    posteriors = {slot: calibrated[id(posterior)] for slot, posterior in rescored.posteriors.items()}
    return Rescored(rescored.draft, posteriors)


@dataclass(frozen=True)
class RescoringResult:
    """Result of rescoring a document.

    Attributes:
        decoded: The text and its confidence.
        rescored: Posterior over the candidates of each slot.
        indices: (k,) index of the byte of each slot among the n positions that were read.
        weights: (n, m) weight of each language model at each position that was read.
    """

    decoded: DecodedText
    rescored: Rescored
    indices: Ints
    weights: Floats

    def alternatives(
        self, changed: NDArray[np.bool_], others: Sequence[tuple[Candidate, ...]]
    ) -> list[tuple[Candidate, ...]]:
        """Return the best candidates of each run of changed bytes: those that were rescored, otherwise ``others``.

        The candidate that the text contains comes first.
        """
        merged, slot_of = [], {index: slot for slot, index in enumerate(self.indices.tolist())}
        for (start, stop), other in zip(runs(changed), others, strict=True):
            slots = [slot_of.get(index, -1) for index in range(start, stop)]
            posterior = self.rescored.candidates_of(slots)
            current = bytes(self.decoded.tokens[start:stop].tolist())
            ordered = sorted(posterior.items(), key=lambda item: (item[0] != current, -item[1]))
            best = tuple(Candidate(data, probability) for data, probability in ordered[: len(other)])
            merged.append(best if current in posterior else other)
        return merged


def precision_by_name(experts: Iterable[Expert | CausalExpert]) -> dict[str, str]:
    """Return name -> number format of each pretrained expert."""
    return {expert.spec.name: expert.spec.precision for expert in experts if expert.spec.precision}
